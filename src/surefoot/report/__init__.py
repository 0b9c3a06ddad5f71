"""From run folders to tables and the page. Imports neither torch nor any metric."""
