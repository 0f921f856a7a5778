#!/usr/bin/env bash
# Builds a release into dist/: archives of the program for Linux, an SBOM for each, the changelog's
# section, and checksums. The commit must have the version's tag, so that the program reports the
# version. DRY=1 builds the current commit with the changelog's Unreleased section instead. Nothing
# is uploaded: .github/workflows/release.yml does that.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-}
dry=${DRY:-}
section=${version#v}
fail() { echo "release: $*" >&2; exit 1; }

if [ -n "$dry" ]; then
	version=${version:-v0.0.0-dry}
	section=Unreleased
fi
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
	fail "VERSION is '$version': set a version such as v1.2.3, or set DRY=1"
if [ -z "$dry" ]; then
	[ "$(git describe --exact-match --tags HEAD 2>/dev/null)" = "$version" ] ||
		fail "the commit has no tag $version: create it with git tag -s $version, or set DRY=1"
	[ -z "$(git status --porcelain)" ] || fail "the worktree has uncommitted changes: see git status"
fi

rm -rf dist
mkdir -p dist
awk -v section="$section" '
	/^## \[/ { inside = index($0, "## [" section "]") == 1; next }
	inside { print }
' CHANGELOG.md >dist/notes.md
grep -q '[^[:space:]]' dist/notes.md || fail "CHANGELOG.md has no section [$section], or it is empty"

epoch=$(git log -1 --format=%ct)
vcs=$([ -n "$dry" ] && echo auto || echo true) # true: the build fails without a repository to take the version from
for arch in amd64 arm64; do
	name=tidemark_${version#v}_linux_$arch
	mkdir "dist/$name"
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs="$vcs" -ldflags='-s -w' \
		-o "dist/$name/" ./cmd/tidemark
	if [ -z "$dry" ] && ! go version -m "dist/$name/tidemark" | grep -q "tidemark[[:space:]]$version"; then
		fail "the program does not report $version: $(go version -m "dist/$name/tidemark" | grep -m 1 '	mod')"
	fi
	cp LICENSE README.md CHANGELOG.md "dist/$name/"
	go -C scripts/sbom tool cyclonedx-gomod bin -json -std -noserial -output "$PWD/dist/$name.cdx.json" \
		"$PWD/dist/$name/tidemark"
	# Reproducible: names in order, no owner, the time of the commit.
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C dist -cf - "$name" |
		gzip -n >"dist/$name.tar.gz"
	rm -r "dist/$name"
done
(cd dist && sha256sum ./*.tar.gz ./*.cdx.json | sed 's#\./##' >SHA256SUMS)
echo "release: $version in dist/"
cat dist/SHA256SUMS
