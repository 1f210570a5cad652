"""How often the diagnosis of an audit is right, on worlds whose cause is known by construction."""
