"""The members of the family, one file each; the table is in the package above."""
