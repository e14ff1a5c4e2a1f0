"""Where Azurite 3.37.0 differs from the documented service: test (with * for any part of its name) to reason.

A listed test must fail on Azurite. docs/AZURITE.md tells the same to people.
"""

AZURITE = {}
