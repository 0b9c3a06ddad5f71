"""surefoot inside the frameworks that people train with: one file per framework, imported when it is asked for.

``from surefoot.integrations.lightning import SharpnessAwareMixin`` needs ``pip install 'surefoot[lightning]'``, and so
on. None of them is imported by ``import surefoot``.
"""
