"""A person's own table: read it, certify it, forecast, plan, split."""
