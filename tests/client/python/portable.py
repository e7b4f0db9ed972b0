"""portable.py FOLDER: the package in FOLDER must be read by CPython 3.9 and import nothing but the standard library and numpy, but
for what a module is about (torch.py torch), and what a function imports when it is called for it."""

import ast
import pathlib
import sys

ABOUT = {("torch.py", "torch"), ("tf.py", "tensorflow"), ("_export.py", "pyarrow"), ("_export.py", "scipy")}
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
files = sorted(pathlib.Path(sys.argv[1]).glob("*.py"))
assert len(files) > 3, files
files.append(pathlib.Path(sys.argv[1]).parent / "dlrun_mpi.py")
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
            if (file.name, top) in ABOUT:
                continue
            assert top == "numpy" or top in sys.stdlib_module_names, "%s imports %s" % (file, name)
# and loads nothing of these by itself
import dlrun  # noqa: E402

assert not {"torch", "tensorflow", "pyarrow", "scipy"} & set(sys.modules), sorted(sys.modules)
assert {"torch", "tf"}.isdisjoint(vars(dlrun))
print("portable")
