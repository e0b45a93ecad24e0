// SPDX-License-Identifier: Apache-2.0
// Several cores in one thread: each a world of its own with a mailbox, turned in any order.
#pragma once
#include "broker/broker_test_support.h"
#include "broker/cross.h"

#define CORES_MAX 4u

struct cluster {
  u32 cores;
  struct world w[CORES_MAX];
  struct broker_shared *shared;
  void *memory;
};

static void (*cluster_wake)(u32 core);  // NULL: nobody sleeps
void plat_wake(u32 core) {
  if (cluster_wake != NULL) {
    cluster_wake(core);
  }
}

static struct cluster *cluster_now;
static void cluster_settle(struct cluster *cl);
static void cluster_settle_now(void) {
  cluster_settle(cluster_now);
}
static void cluster_open(struct cluster *cl, u32 cores, const struct broker_limits *limits) {
  struct broker_limits l;
  broker_limits_default(&l, 8u << 20);
  if (limits != NULL) {
    l = *limits;
  }
  memset(cl, 0, sizeof *cl);
  cl->cores = cores;
  cluster_now = cl;
  clients_settle = cluster_settle_now;
  u64 len = mailroom_bytes(cores, MAIL_RING_MIN) + epoch_bytes() + broker_shared_bytes(cores, &l) +
            cores * broker_join_bytes(cores, &l) + 4096;
  cl->memory = calloc(1, len);
  struct carve carve = {.region = {{cl->memory, len}}, .region_count = 1, .total_len = len};
  struct mailroom *room = mailroom_open(&carve, cores, MAIL_RING_MIN);
  struct epoch *epoch = epoch_open(&carve, cores);
  cl->shared = broker_shared_open(&carve, cores, &l);
  CHECK(room != NULL && epoch != NULL && cl->shared != NULL);
  for (u32 i = 0; i < cores; i++) {
    world_limits(&cl->w[i], &l);
    cl->w[i].core.id = i;
    mailbox_open(&cl->w[i].core, room);
    cl->w[i].core.epoch = epoch;
    cl->w[i].core.now_ns = unit_now_ns;
    CHECK(broker_join(&cl->w[i].core, &carve, cl->shared) == ERR_OK);
  }
}
static void cluster_turn(struct cluster *cl, u32 core) {
  (void)loop_turn(&cl->w[core].core);
}
// Until nothing moves any more.
static void cluster_settle(struct cluster *cl) {
  for (u32 quiet = 0, k = 0; quiet < 2 * cl->cores; k++) {
    quiet = loop_turn(&cl->w[k % cl->cores].core) ? 0 : quiet + 1;
    CHECK(k < 100000);
  }
}
static void cluster_check(struct cluster *cl) {
  for (u32 i = 0; i < cl->cores; i++) {
    broker_check(cl->w[i].b);
    mailbox_check(&cl->w[i].core);
  }
}
static void cluster_close(struct cluster *cl) {
  cluster_settle(cl);
  for (u32 i = 0; i < cl->cores; i++) {
    CHECK(cl->w[i].b->mail_refs == 0);
    CHECK(pool_taken(&cl->w[i].b->tickets) == 0);
    CHECK(cl->w[i].b->cross->claim_count == 0);
    CHECK(cl->w[i].b->cross->export_count == 0);
    CHECK(cl->w[i].b->cross->gone_count == 0);
    CHECK(cl->w[i].b->cross->post_left == POSTS);
    world_close(&cl->w[i]);
  }
  free(cl->memory);
}
