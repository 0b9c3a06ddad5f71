for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  window.addEventListener(kind, (event) => {
    document.documentElement.dataset.trouble = String(event.message || event.reason || event.violatedDirective);
  });
}
