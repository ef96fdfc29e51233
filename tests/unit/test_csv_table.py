import pytest

from joulelab.csv_table import read_csv_table
from joulelab.errors import ConfigError


def table(tmp_path, data):
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    return path


def test_rows_are_read_by_the_names_of_their_columns(tmp_path):
    path = table(tmp_path, b'\xef\xbb\xbfa,b\r\n1,"x,\ny"\r\n\r\n3,4\r\n')

    assert read_csv_table(path) == [{"a": "1", "b": "x,\ny"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bytes(range(256)), "can't decode byte"),
        (b"a,b\n1,\x002\n", r"table.csv:2 must be text, but holds the control character '\\x00'"),
        (b"a,b\n1,\x1b[2J\n", r"table.csv:2 must be text, .* '\\x1b'"),
        (b"a,\x1b[2Jb\n", r"table.csv:1 must be text"),
        (b"a,b\n1\n", "table.csv:2 must have 2 cells, .* but has 1"),
        (b"a,b\n1,2\n1,2,3\n", "table.csv:3 must have 2 cells, .* but has 3"),
        (b"a,b,a\n1,2,3\n", "'a' is there 2 times"),
        (b"b,c\n", "must have the columns a, b, but lacks a"),
        (b"", "lacks a, b"),
        (b'a,b\n1,"2\n', "unexpected end of data"),
    ],
)
def test_a_file_that_is_no_regular_table_is_refused_by_what_is_wrong(tmp_path, data, said):
    with pytest.raises(ConfigError, match=said):
        read_csv_table(table(tmp_path, data), columns=("a", "b"))


@pytest.mark.parametrize("name", ["absent.csv", ".", "x" * 300])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="A readable CSV file is required"):
        read_csv_table(tmp_path / name)
