#!/bin/bash
# debian_package.sh BUILD ROOT: makes the Debian package of a build, installs it in a bare Debian of
# this machine's release below ROOT, and runs the quickstart there. Needs root, debootstrap and the
# package sources of this machine.
set -euo pipefail
build=$1 root=$2
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
packages=$(mktemp -d)
clean_up() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf "$packages" "$root"
}
trap clean_up EXIT

(cd "$build" && cpack -G DEB -B "$packages" >&2)
debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "${mirror%/}" >&2
# The bare system reaches packages in the way that this machine does.
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
mkdir "$root/packages"
cp "$packages"/tidemark_*.deb "$root/packages/"
chroot "$root" sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends /packages/*.deb' >&2
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
status=0
chroot "$root" tidemark run /usr/share/tidemark/scenarios/quickstart.yaml --no-chart || status=$?
echo "exit code $status"
