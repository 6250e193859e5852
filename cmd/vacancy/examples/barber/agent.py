"""A barber who is booked by AGP, an hour for each guest, and tells everybody else which hours are free.
Run it: vacancy watch cmd/vacancy/examples/barber. README.md beside this folder books an hour.
"""

import json
import os
from wsgiref.simple_server import make_server

HOURS = range(9, 17)
booked = {}  # hour: booking; a barber who may be restarted keeps it in a file


def book(booking):
    """Accept a booking for an hour. The host may send it again with the same id."""
    hour = booking["input"].get("hour")
    if hour not in HOURS:
        return {"decision": "reject", "reason": f"open from {HOURS.start} to {HOURS.stop}"}
    if booked.setdefault(hour, booking["booking_id"]) != booking["booking_id"]:
        return {"decision": "reject", "reason": f"{hour}:00 is taken"}
    return {"decision": "accept", "result": f"see you at {hour}:00"}


def answer(message):
    try:
        booking = json.loads(message)
        if booking["type"] == "booking.confirm":
            return json.dumps(book(booking))
    except (ValueError, TypeError, KeyError):
        pass  # words of somebody who asks
    return "Free: " + ", ".join(f"{hour}:00" for hour in HOURS if hour not in booked)


def is_foreign(environ):
    """Whether a web page may have sent a request to this machine: not as JSON, or with an Origin or its site's Host."""
    local = environ.get("HTTP_HOST", "").rpartition(":")[0] in ("127.0.0.1", "localhost")
    return environ["CONTENT_TYPE"] != "application/json" or "HTTP_ORIGIN" in environ or not local


def server(environ, start_response):
    if is_foreign(environ):
        start_response("403 Forbidden", [])
        return [b""]
    question = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [answer(question["message"]).encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", 9104)), server).serve_forever()
