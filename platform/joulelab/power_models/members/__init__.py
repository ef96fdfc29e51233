"""The members of the family; the table is in the package above."""
