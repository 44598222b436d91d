"""Any language and any text: the right item of ten is found, and what is odd is counted and packed all the same."""

import random
import unicodedata
from itertools import product

import pytest

from kaosmem import SectionSpec, SessionMemory
from kaosmem.formats import count_messages

# By language: ten texts on ten subjects, and questions with the number of the text that answers
# each.
LANGUAGES = {
    "Chinese": (
        [
            "任何一方提前三十日书面通知对方，即可解除本合同。",
            "租金应于每月五日前支付，逾期每日加收千分之一的违约金。",
            "公司年会定于十二月二十日在上海国际会议中心举行。",
            "新来的工程师负责数据库的备份与恢复。",
            "这款手机的电池可以连续使用两天。",
            "医生建议他每天步行半小时，并减少盐的摄入。",
            "地下水位下降导致附近的农田干旱。",
            "高铁从北京到广州大约需要八个小时。",
            "图书馆周末开放到晚上九点，学生凭证入馆。",
            "她在厨房里做了一锅红烧肉和一盘青菜。",
        ],
        {
            "怎么解除合同？": 0,
            "租金什么时候交": 1,
            "年会在哪里举行": 2,
            "数据库备份由谁负责": 3,
            "水": 6,
            "肉": 9,
        },
    ),
    "Japanese": (
        [
            "本契約は、三十日前までに書面で通知すれば、いつでも解除することができます。",
            "料金は毎月末日までに銀行振込でお支払いください。",
            "来週の会議は東京タワーの近くのホテルで開かれます。",
            "りんごとバナナを買って、ケーキを焼きました。",
            "サーバーの障害により、データベースが三時間停止しました。",
            "祖母は京都の古いお寺の庭を毎朝掃除しています。",
            "新幹線は雪のため大幅に遅れています。",
            "プログラミングの講座は初心者でも参加できます。",
            "この薬は食後に水と一緒に飲んでください。",
            "お金を返してもらうまで、車は渡しません。",
        ],
        {
            "契約を解除したい": 0,
            "お支払いの料金": 1,
            "東京の会議はどこですか": 2,
            "りんご": 3,
            "ﾃﾞｰﾀﾍﾞｰｽの障害について教えて": 4,
            "薬": 8,
            "雪": 6,
            "お金": 9,
        },
    ),
    "Korean": (
        [
            "어느 당사자든 삼십 일 전에 서면으로 통지하면 계약을 해지할 수 있다.",
            "임대료는 매월 오일까지 지급해야 하며 늦으면 연체료가 붙는다.",
            "다음 주 회의는 부산 호텔에서 열린다.",
            "어머니는 시장에서 사과와 배를 사 오셨다.",
            "서버 장애로 데이터베이스가 세 시간 동안 멈췄다.",
            "의사는 매일 물을 충분히 마시라고 했다.",
            "기차가 눈 때문에 한 시간 늦게 도착했다.",
            "도서관은 주말에도 밤 아홉 시까지 문을 연다.",
            "새 휴대전화의 배터리는 이틀 동안 쓸 수 있다.",
            "동생은 대학교에서 음악을 공부하고 있다.",
        ],
        {
            "계약 해지 방법": 0,
            "임대료를 언제까지 내나요": 1,
            "물": 5,
            "사과는 어디서 샀나": 3,
            "휴대전화가 배터리로": 8,
        },
    ),
    "German": (
        [
            "Die Kündigungsfrist beträgt für beide Seiten drei Monate zum Ende des Quartals.",
            "Der Mietvertrag wird schriftlich geschlossen und gilt für unbestimmte Dauer.",
            "Im Sommer backt Oma am liebsten Apfelkuchen mit viel Zimt und Sahne.",
            "Die Haftpflichtversicherung übernimmt Schäden, die Dritten entstehen.",
            "Beim Straßenverkehr gilt innerorts ein Tempo von dreißig.",
            "Der Rechtsanwalt hat das Schreiben dem Gericht in München übergeben.",
            "Unsere Rechnungsnummern stehen oben rechts neben dem Datum.",
            "Die Wohnungsübergabe findet am letzten Tag des Monats statt.",
            "Das Fußballspiel wurde wegen starken Regens abgebrochen.",
            "Die Geschäftsführer treffen sich jeden Montag zu einer Besprechung.",
        ],
        {
            "Welche Frist?": 0,
            "Wie geht eine Kündigung?": 0,
            "kündigungsfristen": 0,
            "Vertrag": 1,
            "Kuchen": 2,
            "Welche Versicherung?": 3,
            "STRASSENVERKEHR": 4,
            "Verkehr": 4,
            "Anwalt in Muenchen": 5,
            "Rechnung": 6,
            "Uebergabe oder Übergabe": 7,
            "geschaeftsfuehrer": 9,
        },
    ),
    "Arabic": (
        [
            "يجوز لأي طرف إنهاء العقد بإشعار كتابي قبل ثلاثين يوماً.",
            "تُدفع الأجرة الشهرية في اليوم الخامس من كل شهر.",
            "افتتحت الشركة فرعاً جديداً في مدينة دبي.",
            "يشرب الطبيب القهوة في المستشفى كل صباح.",
            "تأخر القطار بسبب العاصفة الرملية.",
            "المكتبة مفتوحة للطلاب حتى الساعة التاسعة مساءً.",
            "اشترت أمي التفاح والبرتقال من السوق.",
            "تعطل الخادم وتوقفت قاعدة البيانات ثلاث ساعات.",
            "فاز الفريق الوطني بالمباراة النهائية.",
            "رقم الفاتورة هو ١٢٣٤ وتاريخها أول مارس.",
        ],
        {
            "والعقد": 0,
            "انهاء عقد": 0,
            "شركات": 2,
            "مُكْتَبَـة": 5,
            "تفاح": 6,
            "بيانات الخادم": 7,
            "فاتورة 1234": 9,
        },
    ),
    "Hindi": (
        [
            "कोई भी पक्ष तीस दिन की लिखित सूचना देकर अनुबंध समाप्त कर सकता है।",
            "किराया हर महीने की पाँच तारीख तक देना होगा।",
            "कंपनी ने मुंबई में नया कार्यालय खोला।",
            "माँ ने बाज़ार से सेब और केले खरीदे।",
            "सर्वर बंद होने से तीन घंटे तक काम रुका रहा।",
            "डॉक्टर ने रोज़ पानी पीने की सलाह दी।",
            "बर्फ के कारण ट्रेन देर से पहुँची।",
            "पुस्तकालय में हज़ारों किताबें हैं।",
            "नए फ़ोन की बैटरी दो दिन चलती है।",
            "लड़कों ने मैदान में क्रिकेट खेला।",
        ],
        {
            "अनुबंधों की समाप्ति": 0,
            "कंपनियों के नाम": 2,
            "बाजार": 3,
            "किताब": 7,
            "फोन": 8,
            "लड़का": 9,
            "५ पांच": 1,
        },
    ),
    "Russian": (
        [
            "Любая сторона может расторгнуть договор, уведомив другую за тридцать дней.",
            "Арендная плата вносится до пятого числа каждого месяца.",
            "Новый офис компании открылся в Казани.",
            "Бабушка испекла пирог с яблоками и корицей.",
            "Сервер вышел из строя, и база данных не работала три часа.",
            "Врач советует пить больше воды.",
            "Поезд опоздал из-за снегопада.",
            "Библиотека открыта до девяти вечера.",
            "Ёлку украсили тридцатого декабря.",
            "Студенты изучают музыку в университете.",
        ],
        {
            "расторжение договоров": 0,
            "арендную плату": 1,
            "яблоки": 3,
            "базы данных": 4,
            "елка": 8,
            "музыка": 9,
        },
    ),
    "Greek": (
        [
            "Κάθε μέρος μπορεί να καταγγείλει τη σύμβαση με έγγραφη ειδοποίηση.",
            "Το ενοίκιο καταβάλλεται έως την πέμπτη ημέρα του μήνα.",
            "Η γιαγιά έφτιαξε μηλόπιτα με κανέλα.",
            "Το τρένο καθυστέρησε λόγω χιονιού.",
            "Ο γιατρός συνιστά περισσότερο νερό.",
            "Η βιβλιοθήκη κλείνει στις εννέα το βράδυ.",
            "Οι φοιτητές σπουδάζουν μουσική.",
            "Το γραφείο μεταφέρθηκε στη Θεσσαλονίκη.",
            "Ο αγώνας αναβλήθηκε εξαιτίας της βροχής.",
            "Το τιμολόγιο στάλθηκε χθες με το ταχυδρομείο.",
        ],
        {"ΣΥΜΒΑΣΕΙΣ": 0, "του ενοικίου": 1, "τρένα": 3, "βιβλιοθήκες": 5, "ΤΙΜΟΛΟΓΙΟ": 9},
    ),
    "French": (
        [
            "L'avocat a déposé la plainte au tribunal de Lyon.",
            "Le loyer est payable le cinq de chaque mois.",
            "La clé de l'appartement se trouve chez le gardien.",
            "L'électricité sera coupée jeudi matin.",
            "Nous avons mangé une tarte aux pommes.",
            "Le train est en retard à cause de la neige.",
            "La bibliothèque ferme à neuf heures.",
            "Le cœur du réacteur a été inspecté.",
            "Les étudiants préparent leurs examens.",
            "La réunion d'équipe commence à midi.",
        ],
        {
            "avocat": 0,
            "électricité": 3,
            "electricite": 3,
            "coeur": 7,
            "équipe": 9,
            "APPARTEMENT": 2,
        },
    ),
    "Turkish": (
        [
            "Taraflardan her biri sözleşmeyi otuz gün önceden feshedebilir.",
            "İstanbul'da yeni bir ofis açıldı.",
            "Kira her ayın beşinde ödenir.",
            "Annem pazardan elma aldı.",
            "Tren kar yüzünden gecikti.",
            "Iğdır kışın çok soğuk olur.",
            "Doktor bol su içmemi söyledi.",
            "Kütüphane akşam dokuzda kapanır.",
            "Sunucu üç saat çalışmadı.",
            "Öğrenciler müzik dersinde şarkı söyledi.",
        ],
        {"istanbul": 1, "İSTANBUL": 1, "igdir": 5, "kutuphane": 7, "ogrenciler": 9},
    ),
    "Vietnamese": (
        [
            "Mỗi bên có thể chấm dứt hợp đồng bằng thông báo trước ba mươi ngày.",
            "Tiền thuê nhà phải trả trước ngày mùng năm.",
            "Công ty mở văn phòng mới ở Đà Nẵng.",
            "Mẹ mua táo và chuối ở chợ.",
            "Tàu hỏa đến muộn vì bão.",
            "Bác sĩ khuyên uống nhiều nước.",
            "Thư viện đóng cửa lúc chín giờ tối.",
            "Máy chủ ngừng hoạt động ba tiếng.",
            "Sinh viên học nhạc ở trường.",
            "Hóa đơn được gửi qua bưu điện.",
        ],
        {"hợp đồng": 0, "hop dong": 0, "da nang": 2, "thu vien": 6, "HÓA ĐƠN": 9},
    ),
    "Thai": (
        [
            "คู่สัญญาฝ่ายใดฝ่ายหนึ่งบอกเลิกสัญญาได้โดยแจ้งล่วงหน้าสามสิบวัน",
            "ค่าเช่าต้องชำระภายในวันที่ห้าของทุกเดือน",
            "บริษัทเปิดสำนักงานใหม่ที่เชียงใหม่",
            "แม่ซื้อแอปเปิลและกล้วยจากตลาด",
            "รถไฟมาช้าเพราะพายุ",
            "หมอแนะนำให้ดื่มน้ำมาก ๆ",
            "ห้องสมุดปิดเวลาสามทุ่ม",
            "เซิร์ฟเวอร์หยุดทำงานสามชั่วโมง",
            "นักศึกษาเรียนดนตรีในมหาวิทยาลัย",
            "ใบแจ้งหนี้ส่งทางไปรษณีย์",
        ],
        {"บอกเลิกสัญญา": 0, "ค่าเช่า": 1, "กล้วย": 3, "ห้องสมุด": 6, "ดนตรี": 8},
    ),
    "emoji": (
        [
            "Great work on the launch 👍🏽",
            "The deploy failed again 😭",
            "Flight to Berlin 🇩🇪 at noon",
            "Flight to Paris 🇫🇷 at noon",
            "Maria 👩🏿‍💻 fixed the parser",
            "Happy birthday 🎂🎉",
            "I love this ❤️",
            "The whole family 👨‍👩‍👧 is here",
            "No idea 🤷🏼‍♀️ what happened",
            "Coffee ☕ is ready",
        ],
        {
            "👍": 0,
            "👍🏿": 0,
            "😭": 1,
            "🇩🇪": 2,
            "🇫🇷": 3,
            "👩‍💻": 4,
            "💻": 4,
            "❤": 6,
            "👨‍👩‍👧": 7,
            "🤷": 8,
            "☕️": 9,
        },
    ),
    "mixed": (
        [
            "iPhone用ケースは赤と黒の二色です。",
            "GPT-4の料金は１０００トークンごとに計算されます。",
            "会社のVPNに接続できません (ERROR_42)。",
            "우리 팀은 Kubernetes를 사용합니다.",
            "Der Server läuft unter Ubuntu mit 東京 als Region.",
            "请在Excel里打开report_v2.xlsx文件。",
            "Договор подписан через DocuSign вчера.",
            "استخدمنا Python لتحليل البيانات",
            "ＣＡＦＥで午後３時に会いましょう",
            "नया laptop बहुत तेज़ है",
        ],
        {
            "iphone ケース": 0,
            "gpt-4 料金": 1,
            "1000トークン": 1,
            "error_42 vpn": 2,
            "kubernetes": 3,
            "東京": 4,
            "report_v2.xlsx": 5,
            "docusign договоры": 6,
            "python البيانات": 7,
            "cafe": 8,
            "laptop": 9,
        },
    ),
}
CASES = [(language, query) for language, (_, queries) in LANGUAGES.items() for query in queries]


def holding(texts, *, seed=0):
    """Return a session that holds the texts as documents in a seeded order, each under its number."""
    spec = SectionSpec("documents", placement="query", eviction="none", retrieval_threshold=1)
    memory = SessionMemory.test_mode(sections=[spec])
    for number in random.Random(seed).sample(range(len(texts)), len(texts)):
        memory.add("documents", texts[number], id=f"text-{number}")
    return memory


@pytest.mark.parametrize(
    ("language", "query"), CASES, ids=[f"{language}-{i}" for i, (language, _) in enumerate(CASES)]
)
async def test_the_right_item_of_ten_is_found(language, query):
    """It ranks first, however the query is inflected or typed, and is what a window for one item holds."""
    texts, queries = LANGUAGES[language]
    wanted = f"text-{queries[query]}"
    for form in ("NFC", "NFD"):
        memory = holding(texts)
        asked = unicodedata.normalize(form, query)
        assert memory.search(asked, limit=1)[0][0].id == wanted
    tight = memory.admin.counter(texts[queries[query]]) + 30
    context = await memory.assemble_context(query, budget=tight, format="text")
    assert wanted in [item.id for item in context.items]
    assert len(context.items) < len(texts) / 2


ODD = {
    "a million spaces": " " * 1_000_000,
    "a million spaces between words": "first" + " " * 1_000_000 + "last",
    "a line of 5 MB": "x" * 5_000_000,
    "a line of 1 MB in words": "word-" * 200_000,
    "special tokens": "<|endoftext|><|im_start|>system<|im_end|><|fim_prefix|>" * 20,
    "NUL and controls": "a\0b\x1b[31mc\x7f\x85",
    "marks": "e" + "\u0301" * 1_000,
    "directions": "\u202eabc\u202c \u200f\u2066עברית\u2069",
    "joiners": "\u200d" * 1_000 + "👨‍👩‍👧" * 100,
    "unassigned": "\u0378\U000e1000\U0010fffd\ufffe",
    "line ends": "\r\n\n\r\u2028\u2029\v\f" * 100,
}


@pytest.mark.parametrize("kind", ODD)
async def test_text_of_any_kind_is_counted_and_packed(kind):
    """It is handed over whole where it fits and left out where it does not, and the count is right in both."""
    sections = [SectionSpec("documents", placement="query", eviction="none")]
    memory = SessionMemory.test_mode(sections=sections)
    item = memory.add("documents", ODD[kind])
    memory.add("documents", "A short note on something else.")
    for budget, format_name in product((item.tokens + 1_000, 60), ("text", "openai")):
        context = await memory.assemble_context("something else", budget=budget, format=format_name)
        handed_over = context.text if format_name == "text" else context.messages
        assert count_messages(handed_over, format_name) == context.used <= budget
        assert (item.id in [shown.id for shown in context.items]) == (item.tokens < budget - 20)
