"""Texts that are summaries and texts that are none, in several languages, about one conversation."""

from __future__ import annotations

SOURCE = (
    "[user] We move the shop to PostgreSQL. Deploy to /srv/shop on port 8443 and keep TASK-17 open. "
    "The login fails with error 500 for /api/login. Anna wants the report on Friday.\n"
    "[assistant] I will look at the shop, the login and the report.\n"
)
SOURCES = {
    "en": f"{SOURCE}[user] The request to the bank timed out twice.\n",
    "de": "[user] Wir ziehen den Shop auf PostgreSQL um. Die Anmeldung schlägt mit Fehler 500 bei "
    "/api/login fehl. Anna will den Bericht am Freitag. TASK-17 bleibt offen. Die Bank antwortet nicht.\n",
    "fr": "[user] Nous déplaçons la boutique vers PostgreSQL. La connexion échoue avec l'erreur 500 sur "
    "/api/login. Anna veut le rapport vendredi. TASK-17 reste ouverte. La banque ne répond pas.\n",
    "es": "[user] Movemos la tienda a PostgreSQL. El acceso falla con el error 500 en /api/login. Ana "
    "quiere el informe el viernes. TASK-17 sigue abierta. El banco no responde.\n",
    "zh": "[user] 我们把商店迁移到 PostgreSQL。/api/login 登录失败，错误 500。安娜星期五要报告。"
    "TASK-17 还没完成。银行没有回应。\n",
    "ja": "[user] ショップを PostgreSQL に移します。/api/login のログインはエラー 500 で失敗します。"
    "アンナは金曜日に報告書が必要です。TASK-17 は未完了です。銀行は応答しません。\n",
}

GOOD = {
    "en": [
        "The team moves the shop to PostgreSQL and keeps TASK-17 open.",
        "Anna wants the report on Friday; the login fails.",
        "I cannot log in: error 500 at /api/login.",
        "Unfortunately the login fails with error 500.",
        "The request to the bank timed out twice.",
        "Login broken, report due Friday.",
        "I looked at the shop, the login and the report.",
        "- shop to PostgreSQL\n- login fails\n- report on Friday",
        "Running: the move of the shop. Open: TASK-17.",
        "They will deploy to /srv/shop on port 8443.",
    ],
    "de": [
        "Der Shop zieht auf PostgreSQL um; TASK-17 bleibt offen.",
        "Die Anmeldung schlägt mit Fehler 500 fehl.",
        "Anna will den Bericht am Freitag.",
        "Leider antwortet die Bank nicht.",
        "Ich konnte mich nicht anmelden: Fehler 500 bei /api/login.",
        "Offen: TASK-17 und der Bericht.",
    ],
    "fr": [
        "La boutique passe à PostgreSQL et TASK-17 reste ouverte.",
        "La connexion échoue avec l'erreur 500.",
        "Anna veut le rapport vendredi.",
        "Malheureusement, la banque ne répond pas.",
        "Je n'ai pas pu me connecter : erreur 500 sur /api/login.",
        "À faire : TASK-17 et le rapport.",
    ],
    "es": [
        "La tienda se mueve a PostgreSQL y TASK-17 sigue abierta.",
        "El acceso falla con el error 500.",
        "Ana quiere el informe el viernes.",
        "Lamentablemente el banco no responde.",
        "No pude acceder: error 500 en /api/login.",
        "Pendiente: TASK-17 y el informe.",
    ],
    "zh": [
        "商店迁移到 PostgreSQL，TASK-17 未完成。",
        "登录失败，错误 500。",
        "安娜星期五要报告。",
        "很遗憾，银行没有回应。",
        "我检查了登录：/api/login 返回错误 500。",
        "接下来：完成 TASK-17。",
    ],
    "ja": [
        "ショップは PostgreSQL に移り、TASK-17 は未完了です。",
        "ログインはエラー 500 で失敗します。",
        "アンナは金曜日に報告書が必要です。",
        "残念ながら銀行は応答しません。",
        "未完了：TASK-17 と報告書。",
        "ショップを移しました。",
        "/api/login のエラーを調べました。",
    ],
}

NONE = [
    "Next: the report for Anna.",
    "The shop moves.",
    "As a large language model, I cannot process this conversation.",
    "Sorry, but that's something I can't do.",
    "Not possible.",
    "Beklager, men jeg kan ikke hjelpe med det.",
    "Przykro mi, ale nie mogę w tym pomóc.",
    "Üzgünüm, bu konuda yardımcı olamam.",
    "Het spijt me, maar ik kan hier niet mee helpen.",
    "Tyvärr kan jag inte hjälpa till med det.",
    "عذراً، لا يمكنني المساعدة في ذلك.",
    "क्षमा करें, मैं इसमें मदद नहीं कर सकता।",
    "Xin lỗi, tôi không thể giúp bạn.",
    "Вибачте, але я не можу допомогти.",
    "I'll run the tests now.",
    "Now I will check the login endpoint.",
    "First, I need to look at the shop's database.",
    "I need to look at the shop first.",
    "Let me look at /api/login.",
    "Running the migration now...",
    "Next step: run the tests.",
    "Okay, let's deploy the shop.",
    "I'll summarize the conversation for you.",
    "Sure! Here is the summary:",
    "Certainly, I'd be happy to summarize.",
    "Als Nächstes führe ich die Tests aus.",
    "Zuerst muss ich die Datenbank ansehen.",
    "Gerne! Hier ist die Zusammenfassung:",
    "Je lance les tests.",
    "D'abord, je regarde la base.",
    "Ahora ejecutaré las pruebas.",
    "Primero voy a revisar la base.",
    "接下来，我将运行测试。",
    "首先，我需要检查数据库。",
    "では、テストを実行します。",
    '{"tool":"run_tests","args":{"path":"x"}}',
    '{"function_call":{"name":"x","arguments":"{}"}}',
    '{"action": "search", "action_input": "shop"}',
    '```python\nrun_tests("x")\n```',
    '```json\n{"name": "x", "arguments": {}}\n```',
    'Action: search\nAction Input: {"q": "shop"}',
    "call:run_tests{path:x}",
    'bash -c "ls /srv/shop"',
    "$ ls /srv/shop",
    "Request timed out.",
    "The server is overloaded, please try again later.",
    "Context length exceeded: this model's maximum context length is 8192 tokens.",
    "An error occurred while processing your request.",
    "Invalid API key provided.",
    "quota exceeded for this project",
    "Error: connect ECONNREFUSED 127.0.0.1:443",
    "openai.RateLimitError: Error code: 429",
    "Fehler 503: Dienst nicht verfügbar",
    "null",
    "None",
    "{}",
    "[]",
    "...",
    "N/A",
    "[object Object]",
    "EOF",
    "error",
    "Sure!",
]

HALVES = [
    "The team moves the shop to PostgreSQL and the login",
    "The user wants",
    "They moved the shop to Post",
    "Anna asked for the",
    "Der Shop zieht um, weil",
    "La boutique passe à la",
    "La tienda se mueve porque",
    "商店迁移，因为",
]
