"""The report: one HTML page, or Markdown tables, from records and verdicts."""
