// SPDX-License-Identifier: Apache-2.0
// The credentials that serve reads: the token, the certificate and key of TLS. A file that every
// user of this machine may read holds no credential.
#include "verbs/serve/serve.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { TOKEN_BYTES = 4096, PEM_BYTES = 1 << 20 };

static int check_mode(const char *path, const char *what, struct fail *why) {
    struct stat file;
    if (stat(path, &file) || !(file.st_mode & (S_IROTH | S_IWOTH))) return 0;
    fail_set(why, FAIL_INPUT, "%s: every user of this machine can %s the %s", path,
             file.st_mode & S_IROTH ? "read" : "change", what);
    return fail_hint(why, "run chmod 600 %s; make a new one if others may have seen it", path);
}

int serve_read_token(struct arena *a, const struct serve_options *o, struct str *ret_token,
                     struct fail *why) {
    struct str text = str_of(getenv("BATCHFIT_TOKEN"));
    if (o->token_file) {
        int rc = os_read(a, o->token_file, TOKEN_BYTES, &text, NULL, why);
        if (rc == 0) rc = check_mode(o->token_file, "token", why);
        if (rc < 0) return rc;
    }
    *ret_token = str_trim(text);
    if (o->token_file && ret_token->len == 0) {
        return fail_set(why, FAIL_INPUT, "%s: no token in this file", o->token_file);
    }
    if (ret_token->len > 0 || http_is_loopback(o->address)) return 0;
    fail_set(why, FAIL_USAGE, "--address %s: other machines could read this one without a token",
             o->address);
    return fail_hint(why,
                     "(umask 077; openssl rand -hex 32 >token); batchfit serve --address %s "
                     "--token-file token",
                     o->address);
}

static int read_pem(struct arena *a, const char *path, const char *option, const char *holds,
                    struct str *ret_text, struct fail *why) {
    if (os_read(a, path, PEM_BYTES, ret_text, NULL, why) < 0) {
        fail_wrap(why, "%s", option);
        return fail_hint(why, "give a PEM file with %s that the user running serve can read",
                         holds);
    }
    bool is_key = strcmp(option, "--tls-key") == 0;
    struct str wanted = is_key ? STR("PRIVATE KEY-----") : STR("-----BEGIN CERTIFICATE-----");
    if (str_find(*ret_text, wanted) >= 0) return is_key ? check_mode(path, "key", why) : 0;
    fail_set(why, FAIL_INPUT, "%s %s: no %s in this file", option, path,
             is_key ? "private key" : "certificate");
    return fail_hint(
        why,
        "a PEM file has a line '-----BEGIN %s-----'; convert a DER file with openssl %s "
        "-inform DER",
        is_key ? "PRIVATE KEY" : "CERTIFICATE", is_key ? "pkey" : "x509");
}

int serve_read_tls(struct arena *a, const struct serve_options *o, struct http_options *ret_http,
                   struct fail *why) {
    if (!o->tls_cert && !o->tls_key) return 0;
    if (!o->tls_cert || !o->tls_key) {
        fail_set(why, FAIL_USAGE, "%s needs %s", o->tls_cert ? "--tls-cert" : "--tls-key",
                 o->tls_cert ? "--tls-key" : "--tls-cert");
        return fail_hint(why, "TLS needs the certificate and its private key: --tls-cert cert.pem "
                              "--tls-key key.pem");
    }
    int rc = read_pem(a, o->tls_cert, "--tls-cert", "the certificate", &ret_http->tls_cert, why);
    if (rc < 0) return rc;
    return read_pem(a, o->tls_key, "--tls-key", "the private key", &ret_http->tls_key, why);
}
