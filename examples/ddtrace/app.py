# SPDX-License-Identifier: MIT OR Apache-2.0
"""A service as its tracer's documentation has it: Flask, and nothing of perftax's. Some requests are slow, each in its own way."""

import time

from flask import Flask
from waitress import serve

app = Flask(__name__)


def compute(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


@app.route("/cart/<int:item>")
def cart(item):
    total = compute(2_000)
    if item % 100 == 17:
        # A dependency that is slow now and then.
        time.sleep(0.02)
    elif item % 100 == 42:
        # A basket that is large.
        total += compute(400_000)
    return {"total": total}


if __name__ == "__main__":
    serve(app, port=8107, threads=4)
