// SPDX-License-Identifier: Apache-2.0
// Keywords of mosquitto's configuration that urMQTT knows and does not honour, each with the reason
// that a user is told; and which known word an unknown one resembles.
#pragma once
#include "base/bytes.h"

#define CONFIG_NEAR 4u  // words that differ in as many places do not resemble each other

struct known {
  const char *name;  // one that ends in '_' stands for every word that begins so
  const char *why;
};
// Changes nothing here: a warning. NULL: no such word.
const struct known *config_harmless(struct bytes word);
// To ignore it would open the broker or break what users rely on: an error. NULL: no such word.
const struct known *config_refused(struct bytes word);
// Makes `name` the best guess for `word` when it differs in fewer than *least places.
void config_nearer(struct bytes word, const char *name, const char **best, u32 *least);
// The same for each word of both lists.
void config_nearest_known(struct bytes word, const char **best, u32 *least);
