"""Writes a header with BUILD_ID, a digest of sources and the compiler.

usage: build_id.py OUTPUT DEPFILE COMPILER FOLDER...
"""
import hashlib
import pathlib
import sys

output, depfile, compiler = sys.argv[1:4]
sources = sorted(path for folder in sys.argv[4:]
                 for path in pathlib.Path(folder).rglob('*')
                 if path.suffix in ('.c', '.h', '.clt', '.py', '.build'))
digest = hashlib.sha256(compiler.encode())
for path in sources:
    digest.update(path.read_bytes())
with open(output, 'w') as header:
    header.write('#define BUILD_ID "%s"\n' % digest.hexdigest()[:16])
with open(depfile, 'w') as deps:
    names = (str(path).replace(' ', '\\ ') for path in sources)
    deps.write('%s: %s\n' % (output, ' '.join(names)))
