-- Keyed hashes of what erasures have taken, and of acts' requests.

-- derive returns the HMAC-SHA256 of a message, keyed with the installation's secret. Only functions of the
-- owner may call it.
CREATE OR REPLACE FUNCTION tidemark.derive(p_use text, p_message bytea) RETURNS bytea
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s tidemark.erasure_secret;
BEGIN
    SELECT * INTO s FROM tidemark.erasure_secret;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the secret of erasures is missing: tidemark.erasure_secret has no row'
            USING ERRCODE = 'TM018', HINT = 'restore the table from a backup: without it no erased subject is found again';
    END IF;
    RETURN sha256(s.outer_block || sha256(s.inner_block || convert_to(p_use || ':', 'UTF8') || p_message));
END
$$;
REVOKE ALL ON FUNCTION tidemark.derive FROM PUBLIC;

-- spoken returns the words of a text in small letters, one space between them. What stands between words
-- is neither a letter nor a digit of ASCII, and no other character but general punctuation. It does not
-- depend on the database's locale: small letters are those of Latin, Greek and Cyrillic.
CREATE OR REPLACE FUNCTION tidemark.spoken(p_text text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT btrim(regexp_replace(CASE WHEN octet_length(p_text) = length(p_text) THEN lower(p_text COLLATE "C")
        ELSE translate(lower(p_text COLLATE "C"),
            'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹ'
            'ŻŽͰͲͶͿΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫϏϘϚϜϞϠϢϤϦϨϪϬϮϴϷϹϺϽϾϿЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНО'
            'ПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨӪӬӮӰӲӴӶӸ'
            'ӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮḀḂḄḆḈḊḌḎḐḒḔḖḘḚḜḞḠḢḤḦḨḪḬḮḰḲḴḶḸḺḼḾṀṂṄṆṈṊṌṎṐṒṔṖṘṚṜṞṠṢṤṦṨṪṬṮṰṲṴṶṸṺṼ'
            'ṾẀẂẄẆẈẊẌẎẐẒẔẞẠẢẤẦẨẪẬẮẰẲẴẶẸẺẼẾỀỂỄỆỈỊỌỎỐỒỔỖỘỚỜỞỠỢỤỦỨỪỬỮỰỲỴỶỸỺỼỾ',
            'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįĳĵķĺļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿź'
            'żžͱͳͷϳάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋϗϙϛϝϟϡϣϥϧϩϫϭϯθϸϲϻͻͼͽѐёђѓєѕіїјљњћќѝўџабвгдежзийклмно'
            'прстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧөӫӭӯӱӳӵӷӹ'
            'ӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿṁṃṅṇṉṋṍṏṑṓṕṗṙṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽ'
            'ṿẁẃẅẇẉẋẍẏẑẓẕßạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹỻỽỿ') END,
        E'[\\u0001-\\u002f\\u003a-\\u0040\\u005b-\\u0060\\u007b-\\u00bf\\u2000-\\u206f\\u3000-\\u303f]+', ' ', 'g'), ' ')
$$;

-- secret_hash is derive for texts.
CREATE OR REPLACE FUNCTION tidemark.secret_hash(p_use text, p_value text) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN tidemark.derive(p_use, convert_to(p_value, 'UTF8'));
REVOKE ALL ON FUNCTION tidemark.secret_hash FROM PUBLIC;

-- request_hash returns what is kept of an act's request, of which p_sum is a hash: a keyed hash, as a request may
-- name a person.
CREATE OR REPLACE FUNCTION tidemark.request_hash(p_sum bytea) RETURNS bytea
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT tidemark.derive('act', p_sum)
$$;
REVOKE ALL ON FUNCTION tidemark.request_hash FROM PUBLIC;

-- tag_hashes returns keyed hashes of tags and of their keys: topics filter by both.
CREATE OR REPLACE FUNCTION tidemark.tag_hashes(p_tags text[]) RETURNS bytea[]
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT h.hash ORDER BY h.hash), '{}') FROM unnest(p_tags) AS t (tag)
    CROSS JOIN LATERAL (VALUES (t.tag), (split_part(t.tag, '=', 1))) AS v (value)
    CROSS JOIN LATERAL (SELECT tidemark.secret_hash('tag', v.value) AS hash OFFSET 0) AS h
$$;
REVOKE ALL ON FUNCTION tidemark.tag_hashes FROM PUBLIC;

-- notices returns what the events had that notices are about, a row for each type, intent and set of
-- tags. Of the tags it tells those alone that the caller names.
CREATE OR REPLACE FUNCTION tidemark.notices(p_positions bigint[], p_tags text[])
    RETURNS TABLE ("position" bigint, event_type text, intent text, tags text[])
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH asked AS MATERIALIZED (
        SELECT t.tag, tidemark.secret_hash('tag', t.tag) AS hash FROM unnest(p_tags) AS t (tag)
    )
    SELECT n.position, n.event_type, n.intent::text, array(SELECT a.tag FROM asked a WHERE a.hash = ANY (n.tags))
    FROM tidemark.erasure_notices n WHERE n.position = ANY (p_positions) ORDER BY n.position, n.n
$$;
REVOKE ALL ON FUNCTION tidemark.notices FROM PUBLIC;

-- erasable returns the strings of 4 characters and more in a document, and the numbers of 7.
CREATE OR REPLACE FUNCTION tidemark.erasable(p_document jsonb) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT v #>> '{}'
    FROM jsonb_path_query(p_document, 'strict $.** ? (@.type() == "string" || @.type() == "number")') AS v
    WHERE length(v #>> '{}') >= CASE jsonb_typeof(v) WHEN 'string' THEN 4 ELSE 7 END
$$;

-- erased_hashes returns the hashes of values for tidemark.erased_values. Of a long one it is that of the
-- first 8 words.
CREATE OR REPLACE FUNCTION tidemark.erased_hashes(p_key bytea, p_values text[])
    RETURNS TABLE (hash bytea, words smallint)
    LANGUAGE sql STABLE
    SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT sha256(p_key || convert_to(array_to_string(w.words, ' '), 'UTF8')), cardinality(w.words)::smallint
    FROM unnest(p_values) AS v (value)
        CROSS JOIN LATERAL (SELECT (string_to_array(tidemark.spoken(v.value), ' '))[1:8] AS words) w
    WHERE length(array_to_string(w.words, '')) >= 4
$$;
