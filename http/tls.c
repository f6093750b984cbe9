/* SPDX-License-Identifier: Apache-2.0 */
#include "http/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

enum { TLS_CHECK_MS = 2000, FILE_MAX = 1 << 20, NAME_SIZE = 256 };

const char gt_tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

struct gt_tls_set {
    unsigned references;
    gnutls_certificate_credentials_t credentials;
    gnutls_certificate_request_t request;
    int64_t begins, expires;
};

static int no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                          gnutls_pcert_st **ret_certificates, unsigned *ret_count, gnutls_privkey_t *ret_key)
{
    (void)session;
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    (void)ret_certificates;
    (void)ret_count;
    (void)ret_key;
    return -1;
}

void *gt_tls_no_certificate(void)
{
    return (void *)no_certificate;
}

/* What changes when a file is written, replaced, or reached through another symbolic link. */
struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
};

enum { CERTIFICATE, KEY, CLIENT_CA, FILES };

struct gt_tls {
    char *paths[FILES]; /* CLIENT_CA may be NULL */
    bool client_required;
    struct stamp stamps[FILES]; /* of the last attempt to load */
    bool loaded;                /* and whether it worked */
    uint64_t checked_ms;
    struct gt_tls_set *set;
};

static void tls_read_stamps(const struct gt_tls *tls, struct stamp ret[FILES])
{
    memset(ret, 0, FILES * sizeof(*ret)); /* padding as well: stamps are compared as bytes */
    for (unsigned i = 0; i < FILES; i++) {
        struct stat st;
        if (!tls->paths[i] || stat(tls->paths[i], &st) < 0)
            continue;
        ret[i].device = st.st_dev;
        ret[i].inode = st.st_ino;
        ret[i].size = st.st_size;
        ret[i].modified = st.st_mtim;
        ret[i].changed = st.st_ctim;
    }
}

/* During the handshake: a certificate that the client shows must be valid; if none is shown, gnutls decides.
 */
static int verify_client(gnutls_session_t session)
{
    unsigned count = 0, status = 0;
    if (!gnutls_certificate_get_peers(session, &count) || !count)
        return 0;
    char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st data = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = (unsigned char *)purpose};
    int r = gnutls_certificate_verify_peers(session, &data, 1, &status);
    return r < 0 || status ? GNUTLS_E_CERTIFICATE_ERROR : 0;
}

static int fail_gnutls(struct gt_err **err, const char *path, const char *what, int code)
{
    return gt_fail(err, EINVAL, "%s: %s: %s", path, what, gnutls_strerror(code));
}

static int load_pair(const struct gt_tls *tls, struct gt_tls_set *set, struct gt_err **err)
{
    gt_auto_free char *certificate = NULL, *key = NULL;
    size_t certificate_len, key_len;
    GT_TRY(gt_file_read(AT_FDCWD, tls->paths[CERTIFICATE], FILE_MAX, &certificate, &certificate_len, err));
    GT_TRY(gt_file_read(AT_FDCWD, tls->paths[KEY], FILE_MAX, &key, &key_len, err));
    gnutls_datum_t chain = {(unsigned char *)certificate, (unsigned)certificate_len};
    gnutls_datum_t secret = {(unsigned char *)key, (unsigned)key_len};
    int r =
        gnutls_certificate_set_x509_key_mem2(set->credentials, &chain, &secret, GNUTLS_X509_FMT_PEM, NULL, 0);
    explicit_bzero(key, key_len);
    if (r < 0)
        return gt_fail(err, EINVAL, "%s with %s: %s", tls->paths[CERTIFICATE], tls->paths[KEY],
                       gnutls_strerror(r));

    gnutls_x509_crt_t *list = NULL;
    unsigned count = 0;
    r = gnutls_certificate_get_x509_crt(set->credentials, 0, &list, &count);
    if (r < 0)
        return fail_gnutls(err, tls->paths[CERTIFICATE], "certificate", r);
    if (count) {
        set->begins = (int64_t)gnutls_x509_crt_get_activation_time(list[0]);
        set->expires = (int64_t)gnutls_x509_crt_get_expiration_time(list[0]);
    }
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    return 0;
}

static int load_client_ca(const struct gt_tls *tls, struct gt_tls_set *set, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len;
    GT_TRY(gt_file_read(AT_FDCWD, tls->paths[CLIENT_CA], FILE_MAX, &text, &len, err));
    gnutls_datum_t data = {(unsigned char *)text, (unsigned)len};
    int r = gnutls_certificate_set_x509_trust_mem(set->credentials, &data, GNUTLS_X509_FMT_PEM);
    if (r < 0)
        return fail_gnutls(err, tls->paths[CLIENT_CA], "client CA", r);
    if (r == 0)
        return gt_fail(err, EINVAL, "%s: no certificate of a client CA in it", tls->paths[CLIENT_CA]);
    gnutls_certificate_set_verify_function(set->credentials, verify_client);
    set->request = tls->client_required ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_REQUEST;
    return 0;
}

static int tls_load(const struct gt_tls *tls, struct gt_tls_set **ret, struct gt_err **err)
{
    gt_auto_free struct gt_tls_set *new = calloc(1, sizeof(*new));
    GT_NEED(new, err, "TLS");
    new->references = 1;
    new->request = GNUTLS_CERT_IGNORE;
    int r = gnutls_certificate_allocate_credentials(&new->credentials);
    if (r < 0)
        return gt_fail(err, ENOMEM, "TLS: %s", gnutls_strerror(r));
    GT_CLEANUP(gt_tls_set_unref) struct gt_tls_set *set = gt_steal(new);
    GT_TRY(load_pair(tls, set, err));
    GT_TRY(tls->paths[CLIENT_CA] ? load_client_ca(tls, set, err) : 0);
    *ret = gt_steal(set);
    return 0;
}

void gt_tls_set_unref(struct gt_tls_set *set)
{
    if (!set || --set->references)
        return;
    gnutls_certificate_free_credentials(set->credentials);
    free(set);
}

int gt_tls_check(struct gt_tls *tls, struct gt_err **err)
{
    struct stamp stamps[FILES];
    struct gt_tls_set *set;
    gt_auto_err struct gt_err *why = NULL;
    uint64_t now = gt_clock_ms();
    if (tls->set && now - tls->checked_ms < TLS_CHECK_MS)
        return 0;
    tls->checked_ms = now;
    tls_read_stamps(tls, stamps);
    if (tls->loaded && memcmp(stamps, tls->stamps, sizeof(stamps)) == 0)
        return 0;
    bool same = memcmp(stamps, tls->stamps, sizeof(stamps)) == 0;
    /* Before the files are read: one that changes meanwhile is found changed the next time. */
    memcpy(tls->stamps, stamps, sizeof(stamps));
    int r = tls_load(tls, &set, &why);
    tls->loaded = r >= 0;
    if (r >= 0) {
        gt_tls_set_unref(tls->set);
        tls->set = set;
        return 1;
    }
    return same ? 0 : gt_err_pass(err, &why); /* same: as before, and reported before */
}

int gt_tls_new(const struct gt_http_tls *files, struct gt_tls **ret, struct gt_err **err)
{
    if (!files->key)
        return gt_fail(err, EINVAL, "TLS: a certificate without a key");
    if (files->client_required && !files->client_ca)
        return gt_fail(err, EINVAL, "TLS: clients must have a certificate, but no CA for them is given");
    GT_CLEANUP(gt_tls_free) struct gt_tls *tls = calloc(1, sizeof(*tls));
    GT_NEED(tls, err, "TLS");
    tls->client_required = files->client_required;
    GT_TRY(gt_text_dup(files->certificate, "TLS", &tls->paths[CERTIFICATE], err));
    GT_TRY(gt_text_dup(files->key, "TLS", &tls->paths[KEY], err));
    GT_TRY(gt_text_dup(files->client_ca, "TLS", &tls->paths[CLIENT_CA], err));
    tls_read_stamps(tls, tls->stamps);
    GT_TRY(tls_load(tls, &tls->set, err));
    tls->loaded = true;
    tls->checked_ms = gt_clock_ms();
    *ret = gt_steal(tls);
    return 0;
}

void gt_tls_free(struct gt_tls *tls)
{
    if (!tls)
        return;
    gt_tls_set_unref(tls->set);
    for (unsigned i = 0; i < FILES; i++)
        free(tls->paths[i]);
    free(tls);
}

void gt_tls_validity(const struct gt_tls *tls, int64_t *ret_begins, int64_t *ret_expires)
{
    *ret_begins = tls->set->begins;
    *ret_expires = tls->set->expires;
}

/* The client's last message of a handshake has come, and was good. */
static int tls_on_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                           const gnutls_datum_t *message)
{
    (void)type;
    (void)when;
    (void)message;
    if (incoming)
        *(bool *)gnutls_db_get_ptr(session) = true;
    return 0;
}

struct gt_tls_set *gt_tls_dress(struct gt_tls *tls, void *session, bool *done)
{
    if (gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->set->credentials) < 0)
        return NULL;
    gnutls_certificate_server_set_request(session, tls->set->request);
    /* libmicrohttpd uses the session's own pointer; this one is meant for a session cache, which is not used.
     */
    gnutls_db_set_ptr(session, done);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, tls_on_finished);
    tls->set->references++;
    return tls->set;
}

/* A name with a NUL inside could pass for another. */
static bool tls_is_name(int r, const char *name, size_t size)
{
    return r >= 0 && size > 0 && strnlen(name, NAME_SIZE) == size;
}

static unsigned tls_read_names(gnutls_x509_crt_t certificate, char names[GT_TLS_NAMES_MAX][NAME_SIZE])
{
    size_t size = NAME_SIZE;
    int r = gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, names[0], &size);
    unsigned count = tls_is_name(r, names[0], size);
    for (unsigned i = 0; count < GT_TLS_NAMES_MAX; i++) {
        size = NAME_SIZE;
        r = gnutls_x509_crt_get_subject_alt_name(certificate, i, names[count], &size, NULL);
        if (r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            break;
        if (r == GNUTLS_SAN_DNSNAME && tls_is_name(r, names[count], size))
            count++;
    }
    return count;
}

/* `count` texts and the list that names them, in one piece. */
static char **join_names(char names[][NAME_SIZE], unsigned count)
{
    size_t size = (count + 1) * sizeof(char *);
    for (unsigned i = 0; i < count; i++)
        size += strlen(names[i]) + 1;
    char **list = calloc(1, size);
    char *to = list ? (char *)(list + count + 1) : NULL;
    for (unsigned i = 0; list && i < count; i++) {
        list[i] = to;
        to = stpcpy(to, names[i]) + 1;
    }
    return list;
}

char **gt_tls_client_names(void *session)
{
    unsigned count = 0;
    gnutls_x509_crt_t certificate;
    char names[GT_TLS_NAMES_MAX][NAME_SIZE];
    /* One that is here has passed verify_client(). */
    const gnutls_datum_t *list = gnutls_certificate_get_peers(session, &count);
    if (!list || !count || gnutls_x509_crt_init(&certificate) < 0)
        return NULL;
    count = 0;
    if (gnutls_x509_crt_import(certificate, &list[0], GNUTLS_X509_FMT_DER) >= 0)
        count = tls_read_names(certificate, names);
    gnutls_x509_crt_deinit(certificate);
    return count ? join_names(names, count) : NULL;
}
