#!/usr/bin/env bash
# Builds the documentation as a book in target/book/html, and checks its links and its spelling. The pages are those of the repository: a link to a
# file that is no page leads to the repository.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/tools
book=$target/book
pin() { sed -n "s/^$1 := //p" Makefile; }
tool() { # <program> <crate> <version>
  [ "$("$tools/bin/$1" --version 2> /dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1)" = "$3" ] ||
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked --quiet --root "$tools" --version "$3" "$2"
}
tool mdbook mdbook "$(pin MDBOOK_VERSION)"
tool typos typos-cli "$(pin TYPOS_VERSION)"

rm -rf "$book"
mkdir -p "$book/src/examples"
cp docs/book/book.toml "$book"
cp ./*.md "$book/src"
# Its links are relative to its place in the repository; in the book, it is at the top.
sed -E 's#\]\(\.\./\.\./#](#; s#\]\(\.\./#](docs/#' docs/book/SUMMARY.md |
  while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in *docs/troubleshooting.md*)
      for page in docs/runbooks/*.md; do printf '  - [%s](%s)\n' "$(basename "$page" .md)" "$page"; done ;;
    esac
  done > "$book/src/SUMMARY.md"
cp examples/README.md "$book/src/examples"
cp -r docs "$book/src/docs"
rm -rf "$book/src/docs/book"
repository=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml | head -1)
# Each link target, relative to its page: a page or picture of the book stays, anything else becomes an address.
python3 - "$book/src" "$repository" <<'PYTHON'
import os, re, sys
root, repository = sys.argv[1:]
link = re.compile(r'\]\(([^)\s#]+)(#[^)\s]*)?\)')
for folder, _, files in os.walk(root):
    for name in (name for name in files if name.endswith('.md') and name != 'SUMMARY.md'):
        path = os.path.join(folder, name)
        def resolved(match):
            target, anchor = match.group(1), match.group(2) or ''
            if re.match(r'[a-z]+:', target):
                return match.group(0)
            inside = os.path.normpath(os.path.join(folder, target))
            if os.path.isfile(inside):
                # mdBook calls the page of a README index.
                return f']({re.sub(r"README.md$", "index.md", target)}{anchor})'
            own = os.path.relpath(inside, root)
            if not os.path.exists(own):
                sys.exit(f'docs: {os.path.relpath(path, root)} links to {target}, which does not exist')
            kind = 'tree' if os.path.isdir(own) else 'blob'
            return f']({repository}/{kind}/main/{own}{anchor})'
        text = open(path, encoding='utf-8').read()
        open(path, 'w', encoding='utf-8').write(link.sub(resolved, text))
PYTHON
"$tools/bin/mdbook" build "$book"
# Every relative link and anchor of the built pages must exist.
python3 - "$book/html" <<'PYTHON'
import os, re, sys
from html import unescape
from urllib.parse import unquote
root = sys.argv[1]
pages, wrong, checked = {}, [], 0
for folder, _, files in os.walk(root):
    for name in (name for name in files if name.endswith('.html')):
        path = os.path.join(folder, name)
        pages[path] = open(path, encoding='utf-8').read()
anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
for path, text in pages.items():
    if os.path.basename(path) in ('print.html', '404.html', 'toc.html'):
        continue
    for address in re.findall(r'<a [^>]*?href="([^"]+)"', text):
        address = unescape(address)
        if re.match(r'[a-z]+:', address):
            continue
        target, _, anchor = address.partition('#')
        other = os.path.normpath(os.path.join(os.path.dirname(path), unquote(target))) if target else path
        checked += 1
        if not os.path.exists(other):
            wrong.append(f'{os.path.relpath(path, root)}: {address}')
        elif anchor and other in anchors and unquote(anchor) not in anchors[other]:
            wrong.append(f'{os.path.relpath(path, root)}: no {address}')
print(f'{len(pages)} pages, {checked} links')
if wrong:
    sys.exit('docs: broken links:\n  ' + '\n  '.join(sorted(set(wrong))))
PYTHON
"$tools/bin/typos" --config docs/book/typos.toml ./*.md docs examples/README.md
echo "docs: $book/html/index.html"
