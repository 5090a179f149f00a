"""Serves: answers requests, and knows for whom each nanosecond of engine time was."""
