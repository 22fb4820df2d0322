"""Names of other servers' request fields: what each is here, and how it becomes one of our own."""
