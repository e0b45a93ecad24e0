// SPDX-License-Identifier: Apache-2.0
// Reload in three steps: read and check everything into a second configuration; make every TLS
// context of it; only then swap. A failure before the swap changes nothing.
//
// I1  Between the swap of the first listener and that of the last no byte is handled: all of it
//     happens in one call.
// I2  A connection is ended only when the new configuration would not let it in.
#include "admin/reload.h"

#include "admin/control.h"
#include "admin/log.h"
#include "admin/serve.h"
#include "admin/sys.h"
#include "admin/trial.h"

struct made {
  struct tls_context *tls[CONFIG_LISTENERS_MAX];
};

static void unmake(struct made *m, u32 count) {
  for (u32 i = 0; i < count; i++) {
    if (m->tls[i] != NULL) {
      tls_context_unref(m->tls[i]);
    }
  }
}

static bool make(const struct config *c, struct made *m) {
  memset(m, 0, sizeof *m);
  for (u32 i = 0; i < c->listener_count; i++) {
    const struct config_listener *l = &c->listener[i];
    if (!l->served || !serve_has_tls(l)) {
      continue;
    }
    m->tls[i] = serve_context(l);
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
    say("listener %u is closed: the configuration has it no more", l.port);
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
    say_mount(core, l);
    enum err e = server_relisten(core->server, &config);
    if (e == ERR_NOT_FOUND) {
      e = server_listen(core->server, &config);
      say("listener %u is new%s%s", l->port,
          e == ERR_OK ? "" : ": error: ", e == ERR_OK ? "" : err_name(e));
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

// Everything that can fail, then the swap. The caller says which configuration is in use.
static bool put_in_force(struct core *core, const struct config *c) {
  struct made made;
  if (!make(c, &made)) {
    return false;
  }
  if (!serve_security(core, c)) {  // the last thing that can fail, all or nothing itself
    unmake(&made, c->listener_count);
    return false;
  }
  swap(core, c, &made);
  unmake(&made, c->listener_count);
  serve_relimit(core, c);
  log_configure(c, core);
  control_configure(core, c);
  return true;
}

static void settle(struct core *core, const struct config *c) {
  u32 ended = server_recheck(core->server);
  sys_set_interval(core, c->sys_interval_s);
  sys_check_expiry(core);
  say("reload: done; %u connections that are no longer allowed were ended", ended);
}

bool reload_exchange(struct core *core, const struct config *c) {
  if (!put_in_force(core, c)) {
    return false;
  }
  say_what_stays(c, serve_current());
  serve_candidate_try();
  settle(core, c);
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
  if (!put_in_force(core, c)) {
    serve_candidate_drop();
    say("reload: nothing was changed; correct the errors above");
    return false;
  }
  say_what_stays(c, serve_current());
  serve_candidate_take();
  settle(core, c);
  return true;
}
