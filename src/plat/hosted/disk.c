// SPDX-License-Identifier: Apache-2.0
// A file or a block device of the host as a disk. Threads do what may block (pread, pwrite,
// fdatasync, fallocate); the loop only writes into slots and reads from them.
//
// H1  A slot's state is its ownership: FREE and DONE are the loop's, QUEUED is whose worker takes
//     it first, BUSY is that worker's. The state is written with release and read with acquire, so
//     that what the slot says is seen with it.
// H2  A FLUSH is one fdatasync. What it must cover has been completed before it was submitted, so
//     the order in which workers take other slots does not matter. A failed one is an error once;
//     Linux then forgets what it could not write: block.h's B3 is meant literally.
// H3  An operation is whole: a short read or write goes on until the end or an error.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plat/hosted/hosted.h"

#define WORKERS 4u
#define FILE_BLOCK 512u
#define FILE_PHYSICAL 4096u
#define RANGE_MAX (1ull << 30)
#define LOOK_NS 1000000000ull
#define FRESH_LEN (1ll << 30)  // of a file that is made: sparse

enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_BUSY, SLOT_DONE };

struct slot {
  _Atomic u32 state;  // enum slot_state
  u8 status;          // enum block_status
  struct block_op op;
};

struct hosted_disk {
  struct block block;  // first
  int fd;
  bool is_device;
  struct block_info facts;
  struct slot slot[BLOCK_INFLIGHT_MAX];
  u32 next;  // slot to try first: all are used in turn
  u32 held;  // of the loop's view: not FREE
  u64 looked_ns;
  sem_t work;
  pthread_t worker[WORKERS];
  _Atomic bool stop;
};

// --- Workers

static enum block_status of_errno(int e) {
  return e == EOPNOTSUPP || e == EINVAL || e == ENODEV || e == EBADF ? BLOCK_REFUSED : BLOCK_ERROR;
}

static enum block_status move(int fd, const struct block_op *op) {
  u64 done = 0;
  u8 *p = op->memory;
  while (done < op->len) {
    ssize_t n = op->kind == BLOCK_READ
                    ? pread(fd, p + done, op->len - done, (off_t)(op->at + done))
                    : pwrite(fd, p + done, op->len - done, (off_t)(op->at + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return BLOCK_ERROR;
    }
    done += (u64)n;
  }
  return BLOCK_OK;
}

static enum block_status carry_out(const struct hosted_disk *d, const struct block_op *op) {
  int how = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;
  int r = 0;
  switch (op->kind) {
  case BLOCK_READ:
  case BLOCK_WRITE: return move(d->fd, op);
  case BLOCK_FLUSH: return fdatasync(d->fd) == 0 ? BLOCK_OK : BLOCK_ERROR;
  case BLOCK_ZERO:
    if (d->is_device) {  // a hole in a device reads as zeros only if it keeps its promises
      how = FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE;
    }
    break;
  default: break;
  }
  do {
    r = fallocate(d->fd, how, (off_t)op->at, (off_t)op->len);
  } while (r < 0 && errno == EINTR);
  return r == 0 ? BLOCK_OK : of_errno(errno);
}

static void *work(void *arg) {
  struct hosted_disk *d = arg;
  for (;;) {
    if (sem_wait(&d->work) < 0) {
      continue;  // a signal
    }
    if (atomic_load(&d->stop)) {
      return NULL;
    }
    for (u32 i = 0; i < BLOCK_INFLIGHT_MAX; i++) {
      struct slot *s = &d->slot[i];
      u32 expected = SLOT_QUEUED;
      if (!atomic_compare_exchange_strong(&s->state, &expected, SLOT_BUSY)) {
        continue;
      }
      s->status = (u8)carry_out(d, &s->op);
      atomic_store(&s->state, SLOT_DONE);
      plat_wake(0);
      break;
    }
  }
}

// --- The loop's side

static void info(struct block *b, struct block_info *out) {
  *out = ((struct hosted_disk *)(void *)b)->facts;
}

static u32 submit(struct block *b, const struct block_op *ops, u32 count) {
  struct hosted_disk *d = (struct hosted_disk *)(void *)b;
  u32 n = 0;
  for (; n < count && d->held < BLOCK_INFLIGHT_MAX; n++) {
    while (atomic_load(&d->slot[d->next].state) != SLOT_FREE) {
      d->next = (d->next + 1) % BLOCK_INFLIGHT_MAX;
    }
    struct slot *s = &d->slot[d->next];
    s->op = ops[n];
    d->held++;
    if (!block_op_fits(&d->facts, &ops[n])) {
      s->status = BLOCK_REFUSED;
      atomic_store(&s->state, SLOT_DONE);
      continue;
    }
    atomic_store(&s->state, SLOT_QUEUED);
    sem_post(&d->work);
  }
  return n;
}

static u64 size_of(const struct hosted_disk *d) {
  u64 len = 0;
  struct stat st;
  if (d->is_device) {
    return ioctl(d->fd, BLKGETSIZE64, &len) == 0 ? len : 0;
  }
  return fstat(d->fd, &st) == 0 ? (u64)st.st_size : 0;
}

static void look(struct hosted_disk *d, u64 now_ns) {
  if (now_ns - d->looked_ns < LOOK_NS) {
    return;
  }
  d->looked_ns = now_ns;
  u64 len = ALIGN_DOWN(size_of(d), (u64)d->facts.block_len);
  if (len != d->facts.len) {
    d->facts.len = len;
    d->facts.changes++;
  }
}

static u32 complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  struct hosted_disk *d = (struct hosted_disk *)(void *)b;
  u32 n = 0;
  for (u32 i = 0; i < BLOCK_INFLIGHT_MAX && n < max && n < d->held; i++) {
    struct slot *s = &d->slot[i];
    if (atomic_load(&s->state) == SLOT_DONE) {
      out[n++] = (struct block_done){s->op.token, s->status};
      atomic_store(&s->state, SLOT_FREE);
    }
  }
  ASSERT(n <= d->held);
  d->held -= n;
  look(d, now_ns);
  return n;
}

// --- Open and close

static void read_limits(struct hosted_disk *d) {
  struct block_info *i = &d->facts;
  u32 logical = FILE_BLOCK;
  u32 physical = FILE_PHYSICAL;
  u32 optimal = 0;
  int read_only = 0;
  if (d->is_device) {
    (void)ioctl(d->fd, BLKSSZGET, &logical);
    (void)ioctl(d->fd, BLKPBSZGET, &physical);
    (void)ioctl(d->fd, BLKIOOPT, &optimal);
    (void)ioctl(d->fd, BLKROGET, &read_only);
  }
  i->block_len = logical;
  i->physical_len = MAX(physical, logical);
  i->optimal_len = optimal;
  i->read_only = read_only != 0;
  i->transfer_max = BLOCK_TRANSFER_MAX;
  i->inflight_max = BLOCK_INFLIGHT_MAX;
  i->discard_max = RANGE_MAX;
  i->discard_align = i->physical_len;
  i->zero_max = RANGE_MAX;
  i->flush = true;
  i->write_cache = true;
  i->len = ALIGN_DOWN(size_of(d), (u64)logical);
}

struct block *hosted_disk_open(const char *path, const char **why) {
  struct stat st;
  struct hosted_disk *d = calloc(1, sizeof *d);
  *why = "out of memory";
  if (d == NULL) {
    return NULL;
  }
  d->block = (struct block){info, submit, complete};
  d->fd = open(path, O_RDWR | O_CLOEXEC);
  *why = d->fd < 0 ? strerror(errno) : NULL;
  if (d->fd >= 0 && (fstat(d->fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))) {
    *why = "neither a file nor a block device";
  } else if (d->fd >= 0 && flock(d->fd, LOCK_EX | LOCK_NB) < 0) {
    *why = "another process has it";
  }
  if (*why != NULL) {
    if (d->fd >= 0) {
      close(d->fd);
    }
    free(d);
    return NULL;
  }
  d->is_device = S_ISBLK(st.st_mode);
  snprintf(d->facts.name, sizeof d->facts.name, "%s", d->is_device ? "device" : "file");
  read_limits(d);
  sem_init(&d->work, 0, 0);
  for (u32 i = 0; i < WORKERS; i++) {
    if (pthread_create(&d->worker[i], NULL, work, d) != 0) {
      plat_crash("E008", "The host gives no thread for the disk.");
    }
  }
  return &d->block;
}

struct block *hosted_disk_make(const char *path, bool *fresh, const char **why) {
  struct stat st;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  *fresh = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
  *why = NULL;
  if (fd < 0 || (*fresh && ftruncate(fd, FRESH_LEN) < 0)) {
    *why = strerror(errno);
  }
  if (fd >= 0) {
    close(fd);
  }
  return *why == NULL ? hosted_disk_open(path, why) : NULL;
}

void hosted_disk_close(struct block *b) {
  struct hosted_disk *d = (struct hosted_disk *)(void *)b;
  atomic_store(&d->stop, true);
  for (u32 i = 0; i < WORKERS; i++) {
    sem_post(&d->work);
  }
  for (u32 i = 0; i < WORKERS; i++) {
    pthread_join(d->worker[i], NULL);
  }
  sem_destroy(&d->work);
  close(d->fd);
  free(d);
}
