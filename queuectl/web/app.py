"""The Flask application: all routes, behind the guard; errors as JSON."""

from __future__ import annotations

import mimetypes

from flask import Flask, Response, render_template

from queuectl import __version__
from queuectl.web import api_bulk, api_change, api_look, openapi, prometheus
from queuectl.web.guard import LARGEST_BODY, Guard
from queuectl.web.here import Here
from queuectl.web.refusals import refusal

# Windows's registry may name other types for these, and a browser runs no script that is sent as plain text.
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def make_app(here: Here, guard: Guard) -> Flask:
    for ending, kind in KINDS.items():
        mimetypes.add_type(kind, ending)
    app = Flask(__name__, static_url_path="/static")
    app.config.update(MAX_CONTENT_LENGTH=LARGEST_BODY, PROVIDE_AUTOMATIC_OPTIONS=False, SEND_FILE_MAX_AGE_DEFAULT=0)
    app.url_map.merge_slashes = False  # no redirects from addresses with double slashes
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.extensions["queuectl"] = here
    app.before_request(guard.check)
    app.before_request(openapi.check_parameters)
    app.after_request(guard.seal)
    app.register_error_handler(Exception, refusal)
    app.register_blueprint(api_look.looking)
    app.register_blueprint(api_change.changing)
    app.register_blueprint(api_bulk.in_bulk)
    app.register_blueprint(openapi.describing)
    app.register_blueprint(prometheus.telling(here))

    @app.get("/")
    def page() -> Response:
        values = {"csrf_token": guard.csrf_token, "is_read_only": here.is_read_only, "version": __version__}
        return Response(render_template("index.html", **values))

    return app
