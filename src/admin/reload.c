// SPDX-License-Identifier: Apache-2.0
// Reload in three steps: read and check everything into a second configuration; make every TLS
// context of it; only then swap. A failure before the swap changes nothing.
//
// I1  Between the swap of the first listener and that of the last no byte is handled: all of it
//     happens in one call. Of each core: the others do it one turn later than core 0, which waits
//     for them before the configuration that was in use goes.
// I2  A connection is ended only when the new configuration would not let it in.
#include "admin/reload.h"

#include "admin/control.h"
#include "admin/cores.h"
#include "admin/log.h"
#include "admin/serve.h"
#include "admin/sys.h"
#include "admin/trial.h"
#include "base/shared.h"

struct made {  // of one core
  struct tls_context *tls[CONFIG_LISTENERS_MAX];
};
static struct made made_of[PLAT_CORE_MAX];

static void unmake(struct made *m, u32 count) {
  for (u32 i = 0; i < count; i++) {
    if (m->tls[i] != NULL) {
      tls_context_unref(m->tls[i]);
    }
  }
}

static bool make(const struct config *c, struct made *m, bool quiet) {
  memset(m, 0, sizeof *m);
  for (u32 i = 0; i < c->listener_count; i++) {
    const struct config_listener *l = &c->listener[i];
    if (!l->served || !serve_has_tls(l)) {
      continue;
    }
    m->tls[i] = serve_context(l, quiet);
    if (m->tls[i] == NULL) {
      unmake(m, i);
      return false;
    }
  }
  return true;
}

static const struct config_listener *listener_on(const struct config *c, u16 port) {
  for (u32 i = 0; i < c->listener_count; i++) {
    if (c->listener[i].port == port && c->listener[i].served) {
      return &c->listener[i];
    }
  }
  return NULL;
}

// A listener that is in no configuration any more keeps its port and takes nobody.
static u32 close_gone(struct core *core, const struct config *c) {
  struct listener_config l;
  u32 count = 0;
  for (u32 i = 0; server_listener(core->server, i, &l); i++) {
    if (listener_on(c, l.port) != NULL || l.closed) {
      continue;
    }
    struct listener_config closed = {.port = l.port, .closed = true};
    enum err e = server_relisten(core->server, &closed);
    ASSERT(e == ERR_OK);
    if (core->id == 0) {
      say("listener %u is closed: the configuration has it no more", l.port);
    }
    count++;
  }
  return count;
}

static void say_mount(const struct core *core, const struct config_listener *l) {
  struct listener_config now;
  for (u32 i = 0; server_listener(core->server, i, &now); i++) {
    if (now.port == l->port && !bytes_equal(now.mount, l->mount_point)) {
      say("  listener %u: mount_point has changed: it counts from the next start", l->port);
    }
  }
}

static void swap(struct core *core, const struct config *c, struct made *m) {
  for (u32 i = 0; i < c->listener_count; i++) {
    const struct config_listener *l = &c->listener[i];
    if (!l->served) {
      continue;
    }
    struct listener_config config = serve_listener_config(c, i);
    config.tls = m->tls[i];
    if (core->id == 0) {
      say_mount(core, l);
    }
    enum err e = server_relisten(core->server, &config);
    if (e == ERR_NOT_FOUND) {
      e = server_listen(core->server, &config);
      if (core->id == 0) {
        say("listener %u is new%s%s", l->port,
            e == ERR_OK ? "" : ": error: ", e == ERR_OK ? "" : err_name(e));
      }
    }
  }
  (void)close_gone(core, c);
}

static void say_what_stays(const struct config *c, const struct config *old) {
  if (old == NULL) {
    say("  the network and the division of memory stay as they are until the next start");
    return;
  }
  if (c->network_count != old->network_count ||
      memcmp(c->network, old->network, sizeof c->network) != 0) {
    say("  network lines have changed: they count from the next start");
  }
  if (c->memory_limit != old->memory_limit) {
    say("  memory_limit has changed: it counts from the next start");
  }
}

// What a reload is for one core: on that core, in one call (I1).
static void swap_on(struct core *core, const struct config *c) {
  struct made *made = &made_of[core->id];
  swap(core, c, made);
  unmake(made, c->listener_count);
  serve_relimit(core, c);
  log_attach(c, core);
}

struct elsewhere {
  const struct config *config;
  u64 ended;  // connections; added to by every core
};

static void swap_elsewhere(struct core *core, void *arg) {
  struct elsewhere *e = arg;
  serve_security_also(core, e->config);
  swap_on(core, e->config);
  (void)shared_add_u64(&e->ended, server_recheck(core->server));
}

static void unmake_all(u32 cores, const struct config *c) {
  for (u32 i = 0; i < cores; i++) {
    unmake(&made_of[i], c->listener_count);
  }
}

// Everything that can fail, then the swap. The caller says which configuration is in use.
static bool put_in_force(struct core *core, const struct config *c, u64 *ended) {
  u32 cores = cores_count();
  for (u32 i = 0; i < cores; i++) {
    if (!make(c, &made_of[i], i > 0)) {
      unmake_all(i, c);
      return false;
    }
  }
  if (!serve_security(core, c)) {  // the last thing that can fail, all or nothing itself
    unmake_all(cores, c);
    return false;
  }
  log_configure(c);
  swap_on(core, c);
  control_configure(core, c);
  struct elsewhere e = {.config = c};
  cores_do(swap_elsewhere, &e);
  *ended = shared_acquire_u64(&e.ended);
  return true;
}

static void settle(struct core *core, const struct config *c, u64 ended) {
  ended += server_recheck(core->server);
  sys_set_interval(core, c->sys_interval_s);
  sys_check_expiry(core);
  say("reload: done; %llu connections that are no longer allowed were ended",
      (unsigned long long)ended);
}

bool reload_exchange(struct core *core, const struct config *c) {
  u64 ended = 0;
  if (!put_in_force(core, c, &ended)) {
    return false;
  }
  say_what_stays(c, serve_current());
  serve_candidate_try();
  settle(core, c, ended);
  return true;
}

bool reload(struct core *core) {
  const struct config *c = NULL;
  if (trial_is_on()) {
    say("reload: nothing was changed: a configuration is on trial (configConfirm, configRollback)");
    return false;
  }
  enum serve_found found = serve_candidate(&c);
  if (found != SERVE_GOOD) {
    say("reload: nothing was changed%s", found == SERVE_SAME ? "" : "; correct the errors above");
    return false;
  }
  u64 ended = 0;
  if (!put_in_force(core, c, &ended)) {
    serve_candidate_drop();
    say("reload: nothing was changed; correct the errors above");
    return false;
  }
  say_what_stays(c, serve_current());
  serve_candidate_take();
  settle(core, c, ended);
  return true;
}
