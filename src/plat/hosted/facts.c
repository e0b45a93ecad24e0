// SPDX-License-Identifier: Apache-2.0
// What this process runs on, for diagnostics (docs/formats/diagnostics.md).
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "plat/hosted/hosted.h"

// The value of the first line of /proc/cpuinfo that begins with `key`; "" when there is none.
static void cpuinfo(const char *key, char *out, usize cap) {
  char line[4096];
  FILE *f = fopen("/proc/cpuinfo", "r");
  out[0] = 0;
  while (f != NULL && out[0] == 0 && fgets(line, sizeof line, f) != NULL) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, key, strlen(key)) == 0 && colon != NULL) {
      snprintf(out, cap, "%s", colon + (colon[1] == ' ' ? 2 : 1));
      out[strcspn(out, "\n")] = 0;
    }
  }
  if (f != NULL) {
    fclose(f);
  }
}

void plat_facts(struct json_out *o) {
  static const char *const features[] = {"aes",    "pclmulqdq", "avx2", "bmi2",      "adx",
                                         "sha_ni", "rdrand",    "erms", "hypervisor"};
  char name[256];
  char flags[4096];
  struct utsname u;
  uname(&u);
  cpuinfo("model name", name, sizeof name);
  cpuinfo("flags", flags, sizeof flags);
  json_field_string(o, "platform", BYTES_LIT("hosted"));
  json_key(o, "host");
  json_open(o, '{');
  json_field_string(o, "kernel", bytes_str(u.release));
  json_close(o, '}');
  json_key(o, "cpu");
  json_open(o, '{');
  json_field_string(o, "architecture", bytes_str(u.machine));
  json_field_string(o, "name", bytes_str(name));
  json_key(o, "features");
  json_open(o, '{');
  for (u32 i = 0; i < ARRAY_COUNT(features); i++) {
    char word[32];
    snprintf(word, sizeof word, " %s ", features[i]);
    char all[4200];
    snprintf(all, sizeof all, " %s ", flags);
    json_field_bool(o, features[i], strstr(all, word) != NULL);
  }
  json_close(o, '}');
  json_close(o, '}');
  json_key(o, "memory");
  json_open(o, '{');
  json_field_int(o, "ram_bytes", (i64)(hosted.memory_mib << 20));
  json_close(o, '}');
}
