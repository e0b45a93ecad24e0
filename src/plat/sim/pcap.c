// SPDX-License-Identifier: Apache-2.0
// What the broker's NIC sends and receives, as a capture file (libpcap 2.4, nanoseconds) in virtual
// time. The file is opened before the first boot; its descriptor is every boot's.
#include <fcntl.h>
#include <unistd.h>

#include "plat/sim/world.h"

static int fd = -1;

static void put(const void *p, usize len) {
  if (fd >= 0 && write(fd, p, len) != (ssize_t)len) {
    close(fd);
    fd = -1;
  }
}

void capture_open(const char *path) {
  static const u32 header[6] = {0xa1b23c4d, 2 | 4 << 16, 0, 0, 65535, 1};
  fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  put(header, sizeof header);
}

void capture(struct bytes frame) {
  if (fd < 0) {
    return;
  }
  u32 header[4] = {(u32)(world->now_ns / SIM_S), (u32)(world->now_ns % SIM_S), (u32)frame.len,
                   (u32)frame.len};
  put(header, sizeof header);
  put(frame.ptr, frame.len);
}
