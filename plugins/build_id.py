"""Writes a header with BUILD_ID, a digest of a plugin's sources and compiler.

usage: build_id.py OUTPUT COMPILER SOURCE...
"""
import hashlib
import sys

digest = hashlib.sha256(sys.argv[2].encode())
for name in sys.argv[3:]:
    with open(name, 'rb') as source:
        digest.update(source.read())
with open(sys.argv[1], 'w') as header:
    header.write('#define BUILD_ID "%s"\n' % digest.hexdigest()[:16])
