"""The JSON of the wire, as msgspec structs."""
