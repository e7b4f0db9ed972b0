"""portable.py FOLDER: the package in FOLDER must be read by CPython 3.9 and import nothing but the standard library and numpy."""

import ast
import pathlib
import sys

files = sorted(pathlib.Path(sys.argv[1]).glob("*.py"))
assert len(files) > 3, files
for file in files:
    tree = ast.parse(file.read_text(), str(file), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        else:
            continue
        for name in names:
            top = name.split(".")[0]
            assert top == "numpy" or top in sys.stdlib_module_names, "%s imports %s" % (file, name)
print("portable")
