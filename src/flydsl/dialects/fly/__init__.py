"""The `fly` layout dialect: types, atoms, ops and what they mean."""
