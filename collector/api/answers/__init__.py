"""What the answers of the API are: a model of each, for the OpenAPI document and for the tests."""
