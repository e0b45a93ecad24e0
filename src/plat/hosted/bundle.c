// SPDX-License-Identifier: Apache-2.0
// The --config folder, with all folders in it, as a ustar archive in memory, so that hosted and
// image read configuration by the same code. What begins with a dot is passed over.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plat/hosted/hosted.h"

#define BLOCK 512u
#define FILE_MAX (16u << 20)
#define BUNDLE_MAX (64u << 20)
#define FOLDERS_MAX 256u
#define PATH_LEN 100u  // ustar's name, its end included

#define FAILED ((usize)-1)

// Says what went wrong; always FAILED.
static usize fail(const char *dir, const char *name) {
  fprintf(stderr, "urmqtt: --config %s%s%s: %s\n", dir, *name ? "/" : "", name, strerror(errno));
  return FAILED;
}

// POSIX ustar header of a regular file.
static void header(u8 *h, const char *name, u64 size) {
  snprintf((char *)h, 100, "%s", name);
  snprintf((char *)h + 100, 8, "%07o", 0600);
  snprintf((char *)h + 108, 8, "%07o", 0);
  snprintf((char *)h + 116, 8, "%07o", 0);
  snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)size);
  snprintf((char *)h + 136, 12, "%011o", 0);
  memset(h + 148, ' ', 8);
  h[156] = '0';
  memcpy(h + 257,
         "ustar\0"
         "00",
         8);
  u32 sum = 0;
  for (u32 i = 0; i < BLOCK; i++) {
    sum += h[i];
  }
  snprintf((char *)h + 148, 8, "%06o", sum);
}

// Appends one file at `at`; returns the new end.
static usize add_file(u8 *tar, usize at, const char *dir, int dir_fd, const char *name) {
  int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0) {
    return fail(dir, name);
  }
  if (fstat(fd, &st) < 0) {
    close(fd);
    return fail(dir, name);
  }
  if (!S_ISREG(st.st_mode)) {
    close(fd);
    return at;
  }
  if (strlen(name) >= 100 || st.st_size > FILE_MAX ||
      at + BLOCK * 4 + (usize)st.st_size > BUNDLE_MAX) {
    close(fd);
    errno = EFBIG;
    return fail(dir, name);
  }
  header(tar + at, name, (u64)st.st_size);
  usize got = 0;
  while (got < (usize)st.st_size) {
    ssize_t n = read(fd, tar + at + BLOCK + got, (usize)st.st_size - got);
    if (n <= 0) {
      errno = n == 0 ? EIO : errno;
      close(fd);
      return fail(dir, name);
    }
    got += (usize)n;
  }
  close(fd);
  return at + BLOCK + ALIGN_UP(got, (usize)BLOCK);
}

// The folders that are still to be looked into; the first is the bundle's own, "".
struct folders {
  char name[FOLDERS_MAX][PATH_LEN];
  u32 count;
};

// One entry of a folder: a file is added, a folder remembered, anything else passed over.
static usize add_entry(u8 *tar, usize at, const char *dir, int dir_fd, const char *path,
                       struct folders *later) {
  struct stat st;
  if (fstatat(dir_fd, path, &st, 0) < 0 || !S_ISDIR(st.st_mode)) {
    return add_file(tar, at, dir, dir_fd, path);
  }
  if (strlen(path) >= PATH_LEN || later->count == FOLDERS_MAX) {
    errno = E2BIG;
    return fail(dir, path);
  }
  strcpy(later->name[later->count++], path);
  return at;
}

// The files of folder `name` of the bundle's folder, which `dir_fd` is.
static usize add_folder(u8 *tar, usize at, const char *dir, int dir_fd, const char *name,
                        struct folders *later) {
  struct dirent **entry;
  int n = scandirat(dir_fd, *name != 0 ? name : ".", &entry, NULL, alphasort);
  if (n < 0) {
    return fail(dir, name);
  }
  for (int i = 0; i < n; i++) {
    char path[PATH_LEN + sizeof entry[i]->d_name];
    (void)snprintf(path, sizeof path, "%s%s%s", name, *name != 0 ? "/" : "", entry[i]->d_name);
    if (entry[i]->d_name[0] != '.' && at != FAILED) {
      at = add_entry(tar, at, dir, dir_fd, path, later);
    }
    free(entry[i]);
  }
  free(entry);
  return at;
}

// The files of the folder, then those of the folders in it, level by level.
static usize add_folders(u8 *tar, const char *dir, int dir_fd) {
  struct folders *f = calloc(1, sizeof *f);
  usize at = f != NULL ? 0 : fail(dir, "");
  if (f != NULL) {
    f->count = 1;
    for (u32 i = 0; i < f->count && at != FAILED; i++) {
      at = add_folder(tar, at, dir, dir_fd, f->name[i], f);
    }
  }
  free(f);
  return at;
}

struct bytes bundle_try(const char *dir) {
  int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir_fd < 0) {
    (void)fail(dir, "");
    return bytes_of(NULL, 0);
  }
  u8 *tar = mmap(NULL, BUNDLE_MAX, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  usize at = tar == MAP_FAILED ? fail(dir, "") : add_folders(tar, dir, dir_fd);
  close(dir_fd);
  if (at == FAILED) {
    if (tar != MAP_FAILED) {
      (void)munmap(tar, BUNDLE_MAX);
    }
    return bytes_of(NULL, 0);
  }
  return bytes_of(tar, at + 2 * (usize)BLOCK);
}

void bundle_release(struct bytes tar) {
  (void)munmap((void *)(uintptr_t)tar.ptr, BUNDLE_MAX);
}

struct bytes bundle_from_dir(const char *dir) {
  struct bytes tar = bundle_try(dir);
  if (tar.ptr == NULL) {
    exit(1);
  }
  return tar;
}
