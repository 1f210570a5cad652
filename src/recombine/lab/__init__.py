"""The browser lab: paint which combinations are shown, see what theory and a network answer."""
