// SPDX-License-Identifier: Apache-2.0
// Disks of urMQTT's from outside: the very code of the broker over a file or block device.
// Exit codes: 0 fine, 1 failed, 2 wrong usage.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plat/hosted/hosted.h"
#include "store/disk.h"
#include "tls/digest.h"

#define SIZE_MIN (512ull << 20)
#define SIZE_MAX_ (1ull << 46)

static void die(const char *what, const char *why) {
  fprintf(stderr, "urmqtt-disk: %s: %s\n", what, why);
  exit(1);
}

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "urmqtt-disk: assertion failed at %s: %s\n", where, what);
  abort();
}
void plat_crash(const char *code, const char *sentence) {
  die(code, sentence);
  abort();
}
void plat_wake(u32 core) {
  (void)core;  // this program asks again
}

static int usage(void) {
  fprintf(
      stderr,
      "usage: urmqtt-disk create FILE SIZE --write   make a file that is a disk of urMQTT's\n"
      "       urmqtt-disk show FILE                  what a disk is and holds (writes nothing)\n"
      "SIZE: a number with M or G, at least 512M. Without --write nothing is written. A file\n"
      "that has content is left alone.\n");
  return 2;
}

static u8 turn(struct disk *d) {
  while (!disk_turn(d, 0)) {
    (void)poll(NULL, 0, 1);
  }
  return d->verdict;
}

static struct block *open_disk(const char *path) {
  const char *why = NULL;
  struct block *b = hosted_disk_open(path, &why);
  if (b == NULL) {
    die(path, why);
  }
  return b;
}

static u64 size_of(const char *text) {
  char *end = NULL;
  errno = 0;
  u64 v = strtoull(text, &end, 10);
  u64 unit = *end == 'G' ? 1ull << 30 : *end == 'M' ? 1ull << 20 : 0;
  bool good = errno == 0 && end != text && unit != 0 && end[1] == 0 && v <= SIZE_MAX_ / unit;
  return good && v * unit >= SIZE_MIN ? v * unit : 0;
}

static int create(const char *path, const char *size, bool write) {
  static struct disk d;
  static u8 memory[DISK_MEMORY] ALIGNED(4096);
  struct stat st;
  u8 seed[DISK_SEED];
  u64 len = size_of(size);
  if (len == 0) {
    return usage();
  }
  if (stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size != 0)) {
    die(path, "it is there and has content, or is no plain file: left alone");
  }
  if (!write) {
    printf("%s would become a disk of %llu bytes; say --write to do it\n", path,
           (unsigned long long)len);
    return 0;
  }
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)len) < 0 || close(fd) < 0) {
    die(path, strerror(errno));
  }
  if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
    die("random bytes", strerror(errno));
  }
  struct block *b = open_disk(path);
  disk_format_start(&d, b, tls_sha256, span_of(memory, sizeof memory), seed);
  u8 v = turn(&d);
  hosted_disk_close(b);
  if (v != DISK_OURS) {
    die(path, disk_verdict_text((enum disk_verdict)v));
  }
  printf("%s: a disk of urMQTT's, %llu bytes\n", path, (unsigned long long)len);
  return 0;
}

static int show(const char *path) {
  static struct disk d;
  static u8 memory[DISK_MEMORY] ALIGNED(4096);
  static const char *const role[ROLE_COUNT] = {
      "",         "configuration A", "configuration B", "journal", "WAL",
      "database", "backup A",        "backup B",        "reserve", "telemetry"};
  struct block *b = open_disk(path);
  disk_open_start(&d, b, tls_sha256, span_of(memory, sizeof memory));
  u8 v = turn(&d);
  hosted_disk_close(b);
  printf("%s: %s\n", path, disk_verdict_text((enum disk_verdict)v));
  if (v != DISK_OURS && v != DISK_OURS_READ_ONLY) {
    return 1;
  }
  printf("generation %llu, %llu starts%s\n", (unsigned long long)d.super.generation,
         (unsigned long long)d.super.boots, d.repairs != 0 ? ", a copy is damaged" : "");
  for (u32 i = 0; i < d.super.extents.count; i++) {
    const struct disk_extent *e = &d.super.extents.e[i];
    printf("%-16s at %6llu MiB, %6llu MiB\n", role[e->role],
           (unsigned long long)((d.super.partition_at + e->at) >> 20),
           (unsigned long long)(e->len >> 20));
  }
  return 0;
}

int main(int argc, char **argv) {
  bool write = argc == 5 && strcmp(argv[4], "--write") == 0;
  if (argc >= 4 && strcmp(argv[1], "create") == 0 && (argc == 4 || write)) {
    return create(argv[2], argv[3], write);
  }
  if (argc == 3 && strcmp(argv[1], "show") == 0) {
    return show(argv[2]);
  }
  return usage();
}
