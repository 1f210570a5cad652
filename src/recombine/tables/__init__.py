"""Tables of measured combinations: read, certify, forecast, plan, split."""
