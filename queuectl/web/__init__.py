"""The dashboard, the REST API and the metrics: the queue over HTTP, for whoever has its token."""
