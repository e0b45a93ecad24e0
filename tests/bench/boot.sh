#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boot time under the same emulator (QEMU TCG, -kernel, q35, 512 MiB), alternating runs: urMQTT from the start of the QEMU
# process until it listens, against Debian's cloud kernel until it gives up for want of a root file system. The ratio is
# the result; milliseconds on a shared machine are not. Usage: tests/bench/boot.sh [RUNS]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
B=${B:-build}
runs=${1:-5}
work=$B/bench/boot
mkdir -p "$work"

if ! ls "$work"/vmlinuz-* >/dev/null 2>&1; then
  package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  (cd "$work" && apt-get download "$package" >/dev/null && dpkg-deb -x "$package"_*.deb x && mv x/boot/vmlinuz-* . && rm -rf x ./*.deb)
fi
linux=$(ls "$work"/vmlinuz-* | head -n 1)
conf=$work/conf
mkdir -p "$conf"
cp "$B"/pki/{ca.crt,server.crt,server.key} "$conf"
printf '%s\n' 'listener 8883' 'cafile ca.crt' 'certfile server.crt' 'keyfile server.key' 'require_certificate true' 'use_identity_as_username true' \
  'network 10.0.2.15/24 gateway 10.0.2.2' >"$conf/urmqtt.conf"
tar --format=ustar -C "$conf" -cf "$work/conf.tar" urmqtt.conf ca.crt server.crt server.key

# Milliseconds until the serial output contains $1; the rest is QEMU's arguments.
until_text() {
  local text=$1 out=$work/serial start now
  shift
  rm -f "$out" && : >"$out"
  start=$(date +%s%N)
  timeout 60 qemu-system-x86_64 -accel tcg -M q35 -cpu max -m 512 -display none -no-reboot -serial "file:$out" "$@" &
  local vm=$!
  while ! grep -aq "$text" "$out"; do
    kill -0 $vm 2>/dev/null || { echo "boot: QEMU ended without '$text'" >&2; exit 1; }
    sleep 0.005
  done
  now=$(date +%s%N)
  kill $vm 2>/dev/null || true
  wait $vm 2>/dev/null || true
  echo $(((now - start) / 1000000))
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

ours=() theirs=()
for _ in $(seq "$runs"); do
  ours+=("$(until_text 'ready: mqtts' -kernel "$B/x86_64/urmqtt.elf" -initrd "$work/conf.tar" \
    -netdev user,id=n -device virtio-net-pci,netdev=n,romfile=)")
  theirs+=("$(until_text 'Kernel panic' -kernel "$linux" -append 'console=ttyS0 panic=-1' -nic none)")
done
a=$(printf '%s\n' "${ours[@]}" | median)
b=$(printf '%s\n' "${theirs[@]}" | median)
echo "urMQTT to listening, ms: ${ours[*]} (median $a)"
echo "$(basename "$linux") to panic, ms: ${theirs[*]} (median $b)"
awk -v a="$a" -v b="$b" 'BEGIN { printf "boot: urMQTT takes 1/%.1f of the Linux kernel'"'"'s time (bar: 1/5)\n", b / a; exit a * 5 > b }'
