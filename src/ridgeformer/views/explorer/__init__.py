"""`ridgeformer explore`: a local page on which one watches a transformer solve a regression.

`state` is what a person chose, and its form as an address; `controls` says what every control does to it; `data` and
`compute` turn it into frozen results by calling the library; `words`, `figures` and `layout` show them; `callbacks` and
`server` tie that to Dash. Nothing here holds mathematics of its own.
"""

from ridgeformer.views.explorer.state import State

__all__ = ["State"]
