"""`ridgeformer explore`: a local page on which one watches a transformer solve a regression.

`state` holds every choice and its form as an address; `controls` says what each control does to it; `data` and
`compute` turn it into frozen results by calling the library; `panels` shows each as a figure and a sentence; `layout`
and `server` are the page.
"""

from ridgeformer.views.explorer.state import State

__all__ = ["State"]
