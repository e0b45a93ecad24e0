// SPDX-License-Identifier: Apache-2.0
// Fuzzes the ACL file and its questions: the input is USER\nID\nTOPIC\nFILE. What is read answers
// as the slow evaluator does (where the C strings of that one can say it), in memory of exact size.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/acl.h"
#include "broker/acl_model_test_support.h"
#include "mqtt/topic.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}

static void say(void *user, const struct acl_complaint *c) {
  u32 *fatal = user;
  check(c->line > 0 && strlen(c->text) > 0);
  *fatal += c->fatal ? 1 : 0;
}

static char *take(const u8 **data, usize *len, usize most) {
  usize n = 0;
  while (n < *len && (*data)[n] != '\n') {
    n++;
  }
  usize kept = n < most ? n : most;
  char *s = malloc(kept + 1);
  memcpy(s, *data, kept);
  s[kept] = 0;
  usize used = n < *len ? n + 1 : n;
  *data += used;
  *len -= used;
  return s;
}

// Lines that the slow one cuts differently: too long for its buffers, or with a blank that strtok
// and our reader both trim but that stands inside.
static bool tame(const char *file) {
  for (usize n = 0; *file != 0; file += n + (file[n] == '\n' ? 1 : 0)) {
    n = strcspn(file, "\n");
    if (n > 400) {
      return false;
    }
    for (usize i = 0; i < n; i++) {
      if ((u8)file[i] < 32) {
        return false;
      }
    }
  }
  return true;
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static const struct siphash_key key = {3, 4};
  char *user = take(&data, &len, 60);
  char *id = take(&data, &len, 60);
  char *topic = take(&data, &len, 200);
  char *file = malloc(len + 1);
  memcpy(file, data, len);
  file[len] = 0;
  usize size = acl_bytes(bytes_of(file, len));
  void *memory = aligned_alloc(16, size);
  u32 fatal = 0;
  struct acl *a = acl_parse(bytes_of(file, len), span_of(memory, size), &key, say, &fatal);
  check((a == NULL) == (fatal > 0));
  struct access_who who = {
      .username = bytes_str(user), .client_id = bytes_str(id), .has_username = user[0] != 0};
  if (a != NULL && topic_name_valid(bytes_str(topic))) {
    bool read = acl_allows(a, &who, ACCESS_READ, bytes_str(topic));
    bool write = acl_allows(a, &who, ACCESS_WRITE, bytes_str(topic));
    if (strlen(file) == len && tame(file)) {
      const char *u = user[0] != 0 ? user : NULL;
      check(read == slow_allows(file, u, id, false, topic));
      check(write == slow_allows(file, u, id, true, topic));
    }
    // What may be read may be subscribed to.
    check(!read || acl_allows(a, &who, ACCESS_SUBSCRIBE, bytes_str(topic)));
  }
  if (a != NULL && topic_filter_valid(bytes_str(topic))) {
    (void)acl_allows(a, &who, ACCESS_SUBSCRIBE, bytes_str(topic));
  }
  free(memory);
  free(file);
  free(topic);
  free(id);
  free(user);
  return 0;
}
