"""Loads every module of routes, which the application does when it is made."""

from collector.api.serving.application import routes

routes()
