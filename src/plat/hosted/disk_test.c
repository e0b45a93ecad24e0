// SPDX-License-Identifier: Apache-2.0
// Proves: a file as a disk gives each operation back once with what stands in the file; the loop's
// calls return while the workers are busy; zeroed ranges read as zeros; growth is noticed; a second
// opener is refused; what is outside never reaches the file.
#include "plat/hosted/disk.c"  // its workers are threads: the whole of it is under test

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LEN (4u << 20)
#define AREA (64u << 10)
#define AREAS (LEN / AREA)

static char path[] = "/tmp/urmqtt-disk-XXXXXX";
static struct block *dev;
static u8 memory[AREAS][AREA];
static u8 shadow[LEN];
static _Atomic u32 wakes;

void plat_wake(u32 core) {
  assert_int_equal(core, 0);
  atomic_fetch_add(&wakes, 1);
}

static int open_file(void **state) {
  (void)state;
  const char *why = NULL;
  int fd = mkstemp(path);
  assert_true(fd >= 0 && ftruncate(fd, LEN) == 0);
  close(fd);
  dev = hosted_disk_open(path, &why);
  assert_non_null(dev);
  return 0;
}
static int close_file(void **state) {
  (void)state;
  hosted_disk_close(dev);
  unlink(path);
  memcpy(path + sizeof path - 7, "XXXXXX", 6);
  return 0;
}

static u8 one(struct block_op op) {
  struct block_done done;
  assert_int_equal(block_submit(dev, &op, 1), 1);
  for (u32 i = 0; i < 5000; i++) {
    if (block_complete(dev, 0, &done, 1) == 1) {
      assert_int_equal(done.token, op.token);
      return done.status;
    }
    usleep(1000);
  }
  fail_msg("no answer");
  return 0;
}

static u32 seed = 1;
static u32 rnd(u32 below) {
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % below;
}

static void mixed(void **state) {
  (void)state;
  bool busy[AREAS] = {false};
  struct block_op ops[AREAS];
  u32 outstanding = 0;
  u32 sent = 0;
  u32 answered = 0;
  while (answered < 4000) {
    u32 at = rnd(AREAS);
    if (sent < 4000 && !busy[at]) {
      u32 kind = rnd(5);
      u32 len = 512 * (1 + rnd(AREA / 512));
      ops[at] = (struct block_op){(u8)kind, (u64)at * AREA, kind == BLOCK_FLUSH ? 0 : len,
                                  memory[at], at};
      if (kind == BLOCK_WRITE) {
        memset(memory[at], (int)rnd(256), len);
      }
      u32 taken = block_submit(dev, &ops[at], 1);
      assert_int_equal(taken, outstanding < BLOCK_INFLIGHT_MAX);
      busy[at] = taken == 1;
      outstanding += taken;
      sent += taken;
    }
    struct block_done done[8];
    u32 n = block_complete(dev, 0, done, 8);
    for (u32 i = 0; i < n; i++) {
      u64 area = done[i].token;
      assert_true(area < AREAS && busy[area]);
      busy[area] = false;
      outstanding--;
      answered++;
      const struct block_op *op = &ops[area];
      if (done[i].status == BLOCK_REFUSED) {  // a file system without holes
        assert_true(op->kind == BLOCK_DISCARD || op->kind == BLOCK_ZERO);
        continue;
      }
      assert_int_equal(done[i].status, BLOCK_OK);
      if (op->kind == BLOCK_WRITE) {
        memcpy(shadow + op->at, op->memory, op->len);
      } else if (op->kind == BLOCK_ZERO || op->kind == BLOCK_DISCARD) {  // of a file: a hole
        memset(shadow + op->at, 0, op->len);
      } else if (op->kind == BLOCK_READ) {
        assert_memory_equal(op->memory, shadow + op->at, op->len);
      }
    }
  }
  assert_int_equal(outstanding, 0);
  assert_true(wakes > 1000);
  int fd = open(path, O_RDONLY);
  static u8 whole[LEN];
  assert_int_equal(read(fd, whole, LEN), LEN);
  close(fd);
  assert_memory_equal(whole, shadow, LEN);
}

static void refused(void **state) {
  (void)state;
  const char *why = NULL;
  assert_int_equal(one((struct block_op){BLOCK_WRITE, LEN, 512, memory[0], 1}), BLOCK_REFUSED);
  assert_int_equal(one((struct block_op){BLOCK_WRITE, LEN - 512, 1024, memory[0], 2}),
                   BLOCK_REFUSED);
  assert_int_equal(one((struct block_op){BLOCK_READ, 100, 512, memory[0], 3}), BLOCK_REFUSED);
  assert_null(hosted_disk_open(path, &why));
  assert_string_equal(why, "another process has it");
  assert_null(hosted_disk_open("/dev/null", &why));
  assert_null(hosted_disk_open("/nowhere/at-all", &why));
  struct stat st;
  assert_true(stat(path, &st) == 0 && st.st_size == LEN);
}

// A file cut short under us: an error, no endless loop, no data made up.
static void cut(void **state) {
  (void)state;
  assert_int_equal(truncate(path, LEN / 2), 0);
  assert_int_equal(one((struct block_op){BLOCK_READ, LEN - 512, 512, memory[0], 1}), BLOCK_ERROR);
  assert_int_equal(one((struct block_op){BLOCK_READ, LEN / 2 - 512, 1024, memory[0], 2}),
                   BLOCK_ERROR);
}

static void grows(void **state) {
  (void)state;
  struct block_info i;
  struct block_done done;
  assert_int_equal(truncate(path, 2 * LEN), 0);
  (void)block_complete(dev, 5000000000ull, &done, 1);
  block_info(dev, &i);
  assert_int_equal(i.len, 2 * LEN);
  assert_int_equal(i.changes, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mixed, open_file, close_file),
      cmocka_unit_test_setup_teardown(refused, open_file, close_file),
      cmocka_unit_test_setup_teardown(cut, open_file, close_file),
      cmocka_unit_test_setup_teardown(grows, open_file, close_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
