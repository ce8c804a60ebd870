"""The dashboard, the REST API and the metrics: the queue over HTTP, for clients that have its token."""
