"""The server: Dash on this computer, everything it shows served from here, no request to anywhere else."""

from __future__ import annotations

import logging
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

from dash import Dash
from flask import Flask, abort, request
from werkzeug.serving import BaseWSGIServer, make_server

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views.explorer.callbacks import register
from ridgeformer.views.explorer.layout import page
from ridgeformer.views.explorer.uploads import MOST_BYTES

__all__ = ["build", "open_server", "serve"]

INDEX = """<!doctype html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
<link rel="icon" href="data:,">
{%css%}
</head>
<body>
{%app_entry%}
{%config%}
{%scripts%}
{%renderer%}
</body>
</html>
"""

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'"
)
"""The browser itself refuses any request to elsewhere."""

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


def build(host: str = "127.0.0.1") -> Dash:
    """Return the app; on a local address it answers only requests that were meant for one.

    A page elsewhere can make a browser ask this computer under a name of its own; such a name is refused.
    """
    server: Any = Flask("ridgeformer.views.explorer")
    server.config["MAX_CONTENT_LENGTH"] = 2 * MOST_BYTES
    app = Dash(
        "ridgeformer.views.explorer", server=server, title="ridgeformer explore", update_title="", serve_locally=True,
        assets_folder=str(Path(__file__).parent / "assets"), index_string=INDEX,
    )  # fmt: skip
    app.enable_dev_tools(debug=False, dev_tools_ui=False, dev_tools_disable_version_check=True)
    app.layout = page
    register(app)

    server.before_request(lambda: _only_for(host))
    server.after_request(_keep_to_ourselves)
    return app


def _only_for(host: str) -> None:
    if host in LOCAL and urlsplit(f"//{request.host}").hostname not in LOCAL:
        abort(403)


def _keep_to_ourselves(response: Any) -> Any:
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def open_server(host: str, port: int) -> BaseWSGIServer:
    """Return a server that listens already; port 0 takes any that is free.

    Raises:
        RidgeformerError: the port is taken, or the address is not this computer's.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise RidgeformerError(
            f"cannot listen on {host} port {port} ({error.strerror or error}): give another with --port, or 0 for any."
        ) from None
    except OverflowError:
        raise RidgeformerError(f"port is {port}; a number from 0 to 65535 was expected.") from None
    with listening:
        return make_server(host, port, build(host).server, threaded=True, fd=listening.dup().detach())


def serve(host: str, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Args:
        host: Where to listen.
        port: On which port; 0 takes any that is free.
        browser: Whether to open a browser.
        say: Told where the page is.
    """
    server = open_server(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{server.port}/"
    say(f"The explorer is at {address} (stop it with Ctrl-C).")
    if host not in LOCAL:
        say("It listens beyond this computer: whoever reaches it can use it. There is no password.")
    if browser:
        Timer(0.3, webbrowser.open, [address]).start()
    try:
        server.serve_forever()  # it may swallow the interrupt itself
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    say("Stopped.")
