//! What is wrong with a certificate, in words: which check failed, and what to do about it.
//!
//! Knows the words of the TLS library only; nothing is ever accepted here.

/// The failed check and the next step, when `cause` is about a certificate.
pub(crate) fn explain(cause: &str) -> Option<&'static str> {
    let cause = cause.split_once("invalid peer certificate")?.1;
    let has = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    Some(if has(&["NotValidForName", "not valid for name"]) {
        "its certificate is for another host name: use the name that the certificate has in `url`, \
         or have a certificate issued for this one"
    } else if has(&["NotValidYet", "not valid yet"]) {
        "its certificate is not valid yet: compare the clocks of both machines"
    } else if has(&["Expired", "expired"]) {
        "its certificate has expired: have it renewed, or set the clock of this machine right"
    } else if has(&["Revoked", "revoked"]) {
        "its certificate was revoked: do not use this server until it has a new one"
    } else if has(&["UnknownIssuer", "CaUsedAsEndEntity"]) {
        "nobody this machine trusts has signed its certificate (self-signed, or a private \
         authority): add the authority to the trust store of the system, or name its file in \
         SSL_CERT_FILE"
    } else if has(&["BadSignature"]) {
        "its certificate is not signed by the authority that it names: the authority was made anew \
         (put its new certificate into the trust store of the system, or into the file of \
         SSL_CERT_FILE), or somebody stands in between"
    } else if has(&["InvalidPurpose"]) {
        "its certificate is not meant for servers: have one issued for server authentication"
    } else {
        "its certificate does not hold: look at it with `openssl s_client -connect HOST:PORT`"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_check_is_told_apart_with_what_to_do() {
        for (cause, said) in [
            ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "self-signed"),
            ("invalid peer certificate: Expired", "expired"),
            ("invalid peer certificate: certificate expired: verification time 5", "expired"),
            ("invalid peer certificate: NotValidYet", "clocks"),
            ("invalid peer certificate: certificate not valid for name \"a\"", "host name"),
            ("invalid peer certificate: Revoked", "revoked"),
            ("invalid peer certificate: BadSignature", "made anew"),
            ("invalid peer certificate: BadEncoding", "openssl"),
        ] {
            assert!(explain(cause).is_some_and(|told| told.contains(said)), "{cause}");
        }
        assert_eq!(explain("connection refused"), None);
    }
}
