// SPDX-License-Identifier: Apache-2.0
// Puts a configuration into the slot of an ISO (or checks one). Host program over the very parser
// that the machine uses. Exit codes: 0 fine, 1 failed, 2 wrong usage.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "admin/config.h"
#include "admin/security.h"
#include "admin/slot.h"
#include "admin/ustar.h"
#include "plat/hosted/hosted.h"
#include "stamp_mosquitto.h"
#include "tls/tls.h"

static void die(const char *what, const char *why) {
  fprintf(stderr, "urmqtt-stamp: %s: %s\n", what, why);
  exit(1);
}

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "urmqtt-stamp: assertion failed at %s: %s\n", where, what);
  abort();
}

static int usage(void) {
  fprintf(
      stderr,
      "usage: urmqtt-stamp ISO BUNDLE-DIR -o OUT   put the configuration into a copy of ISO\n"
      "       urmqtt-stamp ISO --mosquitto /etc/mosquitto/mosquitto.conf -o OUT\n"
      "                                            the same from a mosquitto.conf and every file\n"
      "                                            it names; says what becomes of each keyword\n"
      "       urmqtt-stamp --check BUNDLE-DIR      print every problem with file and line\n"
      "       urmqtt-stamp --check --mosquitto CONF\n"
      "       urmqtt-stamp --show ISO              list what an ISO carries (names and sizes)\n"
      "       urmqtt-stamp --empty-slot FILE       write an empty slot (used by the build)\n"
      "BUNDLE-DIR holds urmqtt.conf and the files it names, e.g.\n"
      "  listener 8883\n  cafile ca.crt\n  certfile server.crt\n  keyfile server.key\n"
      "  require_certificate true\n  use_identity_as_username true\n  network dhcp\n");
  return 2;
}

static void fill_random(struct span out) {
  if (getrandom(out.ptr, out.len, 0) != (ssize_t)out.len) {
    die("random bytes", strerror(errno));
  }
}

// Prints every problem; true when there is no error.
static struct config config;
static bool check(struct bytes tar) {
  static struct config_report report;
  static u8 heap[TLS_HEAP_BYTES * 8] ALIGNED(64);
  tls_init(span_of(heap, sizeof heap), fill_random);
  bool good = config_parse(tar, &config, &report) == ERR_OK;
  good = good && config_check_tls(&config, (u64)time(NULL), &report) == ERR_OK;
  if (good) {
    u64 len = security_check_bytes(&config);
    void *memory = aligned_alloc(64, len);
    if (memory != NULL) {
      memset(memory, 0, len);
    }
    good = memory != NULL && security_check(&config, span_of(memory, len), &report) == ERR_OK;
    free(memory);
  }
  for (u32 i = 0; i < report.count; i++) {
    char line[512];
    struct writer w = writer_init(span_of(line, sizeof line));
    config_problem_text(&report.problem[i], &w);
    fwrite(line, 1, w.pos, report.problem[i].severity == CONFIG_ERROR ? stderr : stdout);
  }
  return good;
}

static void list(struct bytes tar) {
  struct ustar_entry e;
  u32 pos = 0;
  while (ustar_next(tar, &pos, &e) == ERR_OK) {
    printf("  %-32.*s %8u bytes\n", (int)e.name.len, (const char *)tar.ptr + e.name.off,
           e.data.len);
  }
}

static struct span read_iso(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0) {
    die(path, strerror(errno));
  }
  if (!S_ISREG(st.st_mode) || st.st_size < SLOT_SIZE) {
    die(path, "is no ISO of urMQTT (too small)");
  }
  void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED) {
    die(path, strerror(errno));
  }
  close(fd);
  return span_of(p, (usize)st.st_size);
}

// ISO 9660 files begin at multiples of 2048 bytes. Exactly one place may hold a good header.
static struct span find_slot(const char *path, struct span iso) {
  struct span found = {NULL, 0};
  for (usize at = 0; at + SLOT_SIZE <= iso.len; at += 2048) {
    struct bytes tar;
    if (memcmp(iso.ptr + at, SLOT_MAGIC, 16) == 0 &&
        slot_payload(bytes_of(iso.ptr + at, SLOT_SIZE), &tar) != ERR_CORRUPT) {
      if (found.ptr != NULL) {
        die(path, "carries two configuration slots");
      }
      found = span_of(iso.ptr + at, SLOT_SIZE);
    }
  }
  if (found.ptr == NULL) {
    die(path, "has no configuration slot: is it an ISO of urMQTT?");
  }
  return found;
}

static void write_file(const char *path, struct bytes data) {
  char part[4096];
  if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
    die(path, "name too long");
  }
  int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);  // it holds private keys
  if (fd < 0) {
    die(part, strerror(errno));
  }
  for (usize done = 0; done < data.len;) {
    ssize_t n = write(fd, data.ptr + done, data.len - done);
    if (n <= 0) {
      unlink(part);
      die(part, strerror(errno));
    }
    done += (usize)n;
  }
  if (fsync(fd) < 0 || close(fd) < 0 || rename(part, path) < 0) {
    unlink(part);
    die(path, strerror(errno));
  }
}

static int stamp(const char *iso_path, struct bytes tar, const char *what, const char *out) {
  if (!check(tar)) {
    fprintf(stderr, "urmqtt-stamp: nothing written: correct the errors above\n");
    return 1;
  }
  struct span iso = read_iso(iso_path);
  struct span slot = find_slot(iso_path, iso);
  if (slot_write(slot, tar) != ERR_OK) {
    char why[120];
    snprintf(why, sizeof why, "%zu bytes; the slot holds %u", tar.len, SLOT_PAYLOAD_MAX);
    die(what, why);
  }
  write_file(out, span_bytes(iso));
  printf("%s carries:\n", out);
  list(tar);
  return 0;
}

// From a mosquitto.conf; iso NULL: only the check.
static int from_mosquitto(const char *iso, const char *conf, const char *out) {
  struct bytes tar = mosquitto_bundle(conf);
  mosquitto_report(tar);
  fflush(stdout);
  int code = iso == NULL ? (check(tar) ? 0 : 1) : stamp(iso, tar, conf, out);
  if (code == 0) {
    mosquitto_missing(&config);
  }
  return code;
}

static int show(const char *path) {
  struct span slot = find_slot(path, read_iso(path));
  struct bytes tar;
  if (slot_payload(span_bytes(slot), &tar) == ERR_NOT_FOUND) {
    printf("%s carries no configuration\n", path);
  } else {
    printf("%s carries:\n", path);
    list(tar);
  }
  return 0;
}

static int empty_slot(const char *path) {
  static u8 slot[SLOT_SIZE];
  if (slot_write(span_of(slot, sizeof slot), bytes_of(NULL, 0)) != ERR_OK) {
    return 1;
  }
  write_file(path, bytes_of(slot, sizeof slot));
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--check") == 0) {
    return check(bundle_from_dir(argv[2])) ? 0 : 1;
  }
  if (argc == 4 && strcmp(argv[1], "--check") == 0 && strcmp(argv[2], "--mosquitto") == 0) {
    return from_mosquitto(NULL, argv[3], NULL);
  }
  if (argc == 6 && argv[1][0] != '-' && strcmp(argv[2], "--mosquitto") == 0 &&
      strcmp(argv[4], "-o") == 0) {
    return from_mosquitto(argv[1], argv[3], argv[5]);
  }
  if (argc == 3 && strcmp(argv[1], "--show") == 0) {
    return show(argv[2]);
  }
  if (argc == 3 && strcmp(argv[1], "--empty-slot") == 0) {
    return empty_slot(argv[2]);
  }
  if (argc == 5 && argv[1][0] != '-' && strcmp(argv[3], "-o") == 0) {
    return stamp(argv[1], bundle_from_dir(argv[2]), argv[2], argv[4]);
  }
  return usage();
}
