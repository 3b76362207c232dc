"""Models of the API's responses, for the OpenAPI document and for the tests."""
