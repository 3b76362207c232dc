"""Documents of the API's responses: built and encoded by routes, described in OpenAPI, parsed by commands."""
