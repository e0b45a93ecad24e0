// SPDX-License-Identifier: Apache-2.0
// Fuzzes urmqtt.conf inside a good archive: no text makes the parser read or write elsewhere, a
// refused configuration says why, an accepted one holds what its checks promise.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/config.h"
#include "admin/ustar.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static usize add(u8 *tar, usize at, const char *name, const u8 *data, usize len) {
  u8 *h = tar + at;
  memset(h, 0, USTAR_BLOCK);
  snprintf((char *)h, 100, "%s", name);
  snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)len);
  h[156] = '0';
  memcpy(h + 257, "ustar\00000", 8);
  memset(h + 148, ' ', 8);
  u32 sum = 0;
  for (u32 i = 0; i < USTAR_BLOCK; i++) {
    sum += h[i];
  }
  snprintf((char *)h + 148, 8, "%06o", sum);
  if (len > 0) {
    memcpy(h + USTAR_BLOCK, data, len);
  }
  return at + USTAR_BLOCK + ALIGN_UP(len, (usize)USTAR_BLOCK);
}

static void check_problem(const struct config_problem *p) {
  char line[512];
  struct writer w = writer_init(span_of(line, sizeof line));
  config_problem_text(p, &w);
  if (w.err != ERR_OK || memchr(p->file, 0, sizeof p->file) == NULL ||
      memchr(p->text, 0, sizeof p->text) == NULL || p->text[0] == 0) {
    abort();
  }
  for (u32 i = 0; i + 1 < w.pos; i++) {
    if ((u8)line[i] < ' ' || (u8)line[i] > '~') {
      abort();  // nothing of a file reaches a console unescaped
    }
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static struct config config;
  static struct config_report report;
  usize room = 2 * ALIGN_UP(len, (usize)USTAR_BLOCK) + 8 * USTAR_BLOCK;
  u8 *tar = calloc(1, room);
  usize at = add(tar, 0, "f", (const u8 *)"x", 1);
  at = add(tar, at, "conf.d/a.conf", data, len);  // also as an included file
  at = add(tar, at, "urmqtt.conf", data, len);
  enum err e = config_parse(bytes_of(tar, at), &config, &report);
  if ((e == ERR_OK) != (report.error_count == 0)) {
    abort();
  }
  for (u32 i = 0; i < report.count; i++) {
    check_problem(&report.problem[i]);
  }
  for (u32 i = 0; e == ERR_OK && i < config.listener_count; i++) {
    const struct config_listener *l = &config.listener[i];
    bool ca = l->cafile.data.len + l->capath.count > 0;
    if ((l->served && l->port == 0) || (l->require_certificate && !ca) ||
        (l->certfile.data.len == 0) != (l->keyfile.data.len == 0) ||
        (l->served && !l->security.allow_anonymous && !l->use_identity_as_username)) {
      abort();
    }
  }
  for (u32 i = 0; e == ERR_OK && i < config.bridge_topic_count; i++) {
    if (config.bridge_topic[i].bridge >= config.bridge_count) {
      abort();
    }
  }
  free(tar);
  return 0;
}
